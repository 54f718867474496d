// ---- Plots: lines by uPlot ------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Okabe and Ito's colors, lighter on a dark page. Dashes tell the lines apart without color.
const kColors = { light: ["#0072b2", "#c04a00", "#00795a", "#a8488c"],
  dark: ["#56a8de", "#f08a45", "#35c29b", "#dd8fc4"] };
const kDashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const kThinAlpha = 0.7;  // of the thin lines, which show the first step
const kCellAlpha = 0.58;  // of the color behind a token that the model is certain of
const kLabelGap = 8;  // pixels between a horizontal line and its label
const colorOf = (i) => kColors[dark.matches ? "dark" : "light"][i % 4];
const swatch = (i) => html`<svg width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" stroke="${
  colorOf(i)}" stroke-width="2.6" stroke-dasharray="${kDashes[i % 4].join(" ")}"/></svg>`;

const short = (value) => (value === null || value === undefined ? "" : value === 0 ? "0"
  : Math.abs(value) >= 1000 || Math.abs(value) < 0.01 ? value.toExponential(0) : String(+value.toPrecision(3)));

// Horizontal lines, each with a label above it at the right end: a curve that runs along the line does not cross it.
function levelHook(levels, log) {
  return (u) => {
    const { ctx, bbox } = u;
    for (const { y, text } of levels()) {
      const at = Math.round(u.valToPos(placeOf(y, log), "y", true));
      if (!(at > bbox.top && at < bbox.top + bbox.height)) continue;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = css("--faint");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, at);
      ctx.lineTo(bbox.left + bbox.width, at);
      ctx.stroke();
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "right";
      ctx.setLineDash([]);
      ctx.textBaseline = "bottom";
      const place = [text, bbox.left + bbox.width - 4, at - kLabelGap * devicePixelRatio];
      ctx.strokeStyle = css("--paper");
      ctx.lineWidth = 4 * devicePixelRatio;
      ctx.strokeText(...place);
      ctx.fillText(...place);
      ctx.restore();
    }
  };
}

// What to do, in the middle of a plot that has no lines yet.
function emptyHook(text) {
  return ({ ctx, bbox, series }) => {
    if (series.length > 1) return;
    ctx.save();
    ctx.fillStyle = css("--soft");
    ctx.font = `${15 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.fillText(text, bbox.left + bbox.width / 2, bbox.top + bbox.height / 2);
    ctx.restore();
  };
}

// ---- Axes ----------------------------------------------------------------------------------------------

// uPlot's own ticks never end for some ranges (1e-23 to 0.1 on its log axis). So the page draws a log axis as a linear
// axis of the logarithm, keeps all numbers within bounds, and counts its ticks.
const kDecades = 45;  // a float is at least 1e-45, and a norm of floats at most about 1e45
const kLargest = 1e15;  // uPlot has no ticks beyond
const kLogTicks = 8;

const within = (value, bound) => Math.min(Math.max(value, -bound), bound);

// Where a value stands on an axis; null if it does not. undefined: the line goes on.
function placeOf(value, log) {
  if (value === undefined) return value;
  if (!Number.isFinite(value) || (log && value <= 0)) return null;
  return log ? within(Math.log10(value), kDecades) : within(value, kLargest);
}

// The ends of an axis for values from low to high, which are null if there are none.
function rangeOf(low, high, log) {
  if (low === null || low === undefined) return log ? [-1, 1] : [0, 1];
  if (log) return [Math.floor(low), Math.max(Math.floor(low) + 1, Math.ceil(high))];
  return low < high ? [low, high] : [low - 0.5, low + Math.max(0.5, Math.abs(low) * 0.1)];
}

// About `most` round numbers from low to high.
function linearTicks(low, high, most) {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 },
    (_, i) => (Math.ceil(low / step) + i) * step);
}

// Whole powers of ten; on a short axis also 2 and 5 times as much.
function logTicks(low, high) {
  const step = Math.ceil((high - low) / kLogTicks), between = high - low > 2 ? [1] : [1, 2, 5];
  const powers = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
  return powers.flatMap((power) => between.map((factor) => power + Math.log10(factor))).filter((tick) => tick <= high);
}

class Plot {
  // options: {x, y, log, height, whole (ticks at whole numbers), range (of y), span (of x), levels, empty (words)}
  constructor(place, options) {
    Object.assign(this, { place, options, key: "", plot: null });
    place.setAttribute("role", "img");
    this.observer = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.observer.observe(place);
  }

  size() { return { width: Math.max(200, this.place.clientWidth), height: this.options.height ?? 260 }; }

  axis(side, label, splits, text) {
    const line = { stroke: css("--grid"), width: 1 };
    return { stroke: css("--soft"), grid: line, ticks: line, font: "12px system-ui, sans-serif", label, labelSize: 18,
      labelFont: "12px system-ui, sans-serif", labelGap: 2, size: side === "y" ? 52 : 30,
      incrs: (u, axis, low, high) => [Math.max(5, high - low)],  // uPlot counts none of its own
      splits: (u, axis, low, high) => splits(low, high), values: (u, ticks) => ticks.map(text) };
  }

  xTicks(low, high) {
    const ticks = linearTicks(low, high, this.size().width / 80);
    return this.options.whole ? ticks.filter(Number.isInteger) : ticks;
  }

  build(series, data) {
    const { x, y, log, range, span, levels = () => [], empty = "" } = this.options;
    const xRange = (u, low, high) => rangeOf(...(span ? [0, within(span(), kLargest)] : [low, high]));
    const yRange = (u, low, high) => rangeOf(...(range && !log ? range(u, low, high) : [low, high]), log);
    const yTicks = (low, high) => (log ? logTicks(low, high) : linearTicks(low, high, 6));
    this.plot?.destroy();
    this.plot = new uPlot({
      ...this.size(), legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, range: xRange }, y: { range: yRange } },
      axes: [this.axis("x", x, (low, high) => this.xTicks(low, high), (tick) => tick.toLocaleString("en")),
        this.axis("y", y, yTicks, (tick) => short(log ? 10 ** tick : tick))],
      hooks: { draw: [levelHook(levels, log), emptyHook(empty)] },
      series: [{}, ...series.map(({ color, dash = [], width = 2, points = false, alpha = 1 }) =>
        ({ stroke: color, dash, width, alpha, points: { show: points, size: 6, fill: color } }))],
    }, data, this.place);
  }

  // series: [{color, dash, ...}], data: [xs, ys, ...]; a log axis shows positive numbers alone
  draw(series, data, label) {
    const { log } = this.options;
    const shown = [data[0], ...data.slice(1).map((ys) => ys.map((y) => placeOf(y, log)))];
    const key = JSON.stringify([series, log, dark.matches]);
    if (key === this.key && this.plot) this.plot.setData(shown);
    else this.build(series, shown);
    this.key = key;
    this.place.setAttribute("aria-label", label);
  }

  end() {
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }
}
