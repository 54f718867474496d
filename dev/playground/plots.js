// ---- Plots: lines by uPlot ------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const each = (list, part) => list.map(part).join("");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Okabe and Ito's colors, lighter on a dark page. Dashes tell the lines apart without color.
const kColors = { light: ["#0072b2", "#c04a00", "#00795a", "#a8488c"],
  dark: ["#56a8de", "#f08a45", "#35c29b", "#dd8fc4"] };
const kDashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const kThinAlpha = 0.7;  // of the thin lines, which show the first step
const kCellAlpha = 0.58;  // of the color behind a token that the model is certain of
const colorOf = (i) => kColors[dark.matches ? "dark" : "light"][i % 4];
const swatch = (i) => `<svg width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" stroke="${
  colorOf(i)}" stroke-width="2.6" stroke-dasharray="${kDashes[i % 4].join(" ")}"/></svg>`;

const short = (value) => (value === null || value === undefined ? "" : value === 0 ? "0"
  : Math.abs(value) >= 1000 || Math.abs(value) < 0.01 ? value.toExponential(0) : String(+value.toPrecision(3)));

// A label beside a horizontal line.
function levelHook(levels) {
  return (u) => {
    const { ctx, bbox } = u;
    for (const { y, text } of levels()) {
      const at = Math.round(u.valToPos(y, "y", true));
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
      ctx.textBaseline = "top";
      ctx.fillText(text, bbox.left + bbox.width - 4, at + 6 * devicePixelRatio);
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

class Plot {
  // options: {x, y, log, height, whole (ticks at whole numbers), range (of y), span (of x), levels, empty (words)}
  constructor(place, options) {
    Object.assign(this, { place, options, key: "", plot: null });
    place.setAttribute("role", "img");
    this.observer = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.observer.observe(place);
  }

  size() { return { width: Math.max(200, this.place.clientWidth), height: this.options.height ?? 260 }; }

  axis(side, label, values) {
    const line = { stroke: css("--grid"), width: 1 };
    return { stroke: css("--soft"), grid: line, ticks: line, font: "12px system-ui, sans-serif", label, labelSize: 18,
      labelFont: "12px system-ui, sans-serif", labelGap: 2, size: side === "y" ? 52 : 30, ...values };
  }

  build(series, data) {
    const { x, y, log, whole, range, span, levels = () => [], empty = "" } = this.options;
    const integers = whole ? { incrs: [1, 2, 5, 10, 20, 50, 100], values: (u, ticks) => ticks.map((t) => t) } : {};
    const numbers = { values: (u, ticks) => ticks.map((t) => (log && t && Math.abs(Math.log10(t) % 1) > 1e-6 &&
      u.scales.y.max > 50 * u.scales.y.min ? "" : short(t))) };
    this.plot?.destroy();
    this.plot = new uPlot({
      ...this.size(), legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, ...(span ? { range: () => [0, span()] } : {}) },
        y: { distr: log ? 3 : 1, ...(range && !log ? { range } : {}) } },
      axes: [this.axis("x", x, integers), this.axis("y", y, numbers)],
      hooks: { draw: [levelHook(levels), emptyHook(empty)] },
      series: [{}, ...series.map(({ color, dash = [], width = 2, points = false, alpha = 1 }) =>
        ({ stroke: color, dash, width, alpha, points: { show: points, size: 6, fill: color } }))],
    }, data, this.place);
  }

  // series: [{color, dash, ...}], data: [xs, ys, ...]; a log axis shows positive numbers alone
  draw(series, data, label) {
    const positive = (y) => (y > 0 || y === undefined ? y : null);  // undefined: the line goes on
    const shown = this.options.log ? [data[0], ...data.slice(1).map((ys) => ys.map(positive))] : data;
    const key = JSON.stringify([series, this.options.log, dark.matches]);
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
