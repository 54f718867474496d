"use strict";
// The page: curves, colors, legend, axes, sorting, saving. The other figures come from figures.py, complete except for
// their colors.

const report = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const hidden = new Set();
const view = { x: "step", logX: false, logY: report.plots.loss.log, smoothing: 0 };

const all = (selector) => [...document.querySelectorAll(selector)];
const color = (cell) => report.cells[cell][dark.matches ? "dark" : "light"];
const fade = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- Lines as small pictures, for the legend and the table ------------------------------------------

const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
function paintSwatch(place) {
  const line = place.querySelector("line"), cell = +place.dataset.swatch;
  line.setAttribute("stroke", color(cell));
  line.setAttribute("stroke-dasharray", dashes[report.cells[cell].dash]);
}

// ---- Curves -----------------------------------------------------------------------------------------

const axisTitles = { step: "step", tokens: "tokens", seconds: "seconds of training",
  flops: "FLOPs" };
const widths = { val: 2.6, train: 1.1, lost: 1.3 };
const opacities = { val: 1, train: 0.5, lost: 0.75 };
const crosses = { diverged: "x", stuck: "square-open", failed: "star-triangle-down" };

function xOf(curve) {
  if (view.x === "seconds") return curve.seconds;
  const factor = view.x === "step" ? 1 : curve[view.x];
  return curve.step.map((step) => step * factor);
}

// series.py explains the window, which shrinks at the start and loses its missing half at the end.
function smoothed(values, share) {
  const half = Math.floor(values.length * share / 2);
  return values.map((_, i) => {
    const window = values.slice(i - Math.min(half, i), i + Math.min(half, i) + 1);
    return window.reduce((sum, value) => sum + value, 0) / window.length;
  });
}

function yOf(curve) {
  const values = curve.role === "val" ? curve.mean : smoothed(curve.mean, view.smoothing);
  return values.map((value) => (value > curve.floor ? value - curve.floor : null));
}

// One outline for each stretch that has a band.
function band(curve, x, y, limits) {
  const outline = { x: [], y: [] };
  for (let i = 0; i < x.length;) {
    const inside = [];
    for (; i < x.length && curve.half[i] !== null && y[i] !== null; i++) inside.push(i);
    const clip = (value) => Math.min(Math.max(value, limits[0]), limits[1]);
    outline.x.push(...inside.map((j) => x[j]), ...inside.toReversed().map((j) => x[j]), null);
    outline.y.push(...inside.map((j) => clip(y[j] - curve.half[j])),
      ...inside.toReversed().map((j) => clip(y[j] + curve.half[j])), null);
    if (!inside.length) i++;
  }
  return { ...outline, mode: "none", fill: "toself", hoverinfo: "skip", meta: { cell: curve.cell, role: "band" } };
}

// Where a run ended that did not finish: its last point, or where it left the top of the plot for good.
function cross(curve, x, y, top) {
  let i = y.length - 1;
  while (i > 0 && y[i - 1] > top && y[i] > top) i--;
  const at = curve.stopped === null ? "" : ` at step ${curve.stopped.toLocaleString("en")}`;
  return { x: [x[i]], y: [Math.min(y[i], top)], mode: "markers", cliponaxis: false,
    marker: { symbol: crosses[curve.state], size: 11, line: { width: 2 } }, meta: { cell: curve.cell, role: "cross" },
    hovertemplate: `<b>${report.cells[curve.cell].label}</b><br>${curve.seeds} ${curve.state}${at}<extra></extra>` };
}

function tracesOf(curve, limits, what) {
  const x = xOf(curve), y = yOf(curve), { label, dash } = report.cells[curve.cell];
  const kind = [what, curve.seeds, curve.state === "finished" ? "" : curve.state].filter(Boolean).join(", ");
  const spread = curve.half ? "<br>95 % interval ± %{customdata:.4f}" : "";
  const line = { x, y, mode: x.length > 1 ? "lines" : "markers", name: label, opacity: opacities[curve.role],
    line: { width: widths[curve.role], dash }, marker: {}, customdata: curve.half,
    meta: { cell: curve.cell, role: curve.role },
    hovertemplate: `<b>${label}</b><br>${kind}<br>${view.x} %{x:.4~s}: %{y:.4~f}${spread}<extra></extra>` };
  const traces = [line];
  if (curve.half) traces.unshift(band(curve, x, y, limits));
  if (curve.role === "lost") traces.push(cross(curve, x, y, limits[1]));
  if (curve.full !== null) {
    traces.push({ x: [x.at(-1)], y: [curve.full - curve.floor], mode: "markers", cliponaxis: false,
      marker: { symbol: "circle-open", size: 9, line: { width: 2 } }, meta: { cell: curve.cell, role: "full" },
      hovertemplate: `<b>${label}</b><br>whole validation split: %{y:.4f}<extra></extra>` });
  }
  return traces;
}

const lossWords = { val: "validation", train: "training", lost: "training" };

// A figure like those of figures.py, from the numbers and the view.
function curvesFigure(id) {
  const plot = report.plots[id];
  const log = id === "loss" ? view.logY : plot.log;
  const limits = plot.limits[log ? "log" : "linear"];
  const traces = plot.curves.flatMap((curve) => tracesOf(curve, limits, id === "loss" ? lossWords[curve.role] : ""));
  const xs = plot.curves.flatMap(xOf).filter((x) => x > 0);
  const end = xs.reduce((a, b) => Math.max(a, b), 0), begin = xs.reduce((a, b) => Math.min(a, b), end);
  // Left alone, Plotly sets the ticks of a log axis too close.
  const ticks = (low, high) => (high > 1000 * low ? 1 : high > 5 * low ? "D2" : "D1");
  const layout = {
    xaxis: { title: { text: axisTitles[view.x] }, ...(view.logX
      ? { type: "log", range: [Math.log10(begin), Math.log10(1.03 * end)], dtick: ticks(begin, end), tickformat: "~s" }
      : { type: "linear", range: [0, 1.015 * end] }) },
    yaxis: { title: { text: id === "loss" ? plot.title : "" }, ...(log
      ? { type: "log", range: limits.map(Math.log10), dtick: ticks(...limits) }
      : { type: "linear", range: limits }) },
  };
  if (plot.floor !== null) {
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: plot.floor, y1: plot.floor,
      line: { dash: "dot", width: 1.5, color: "#888888" } }];
    layout.annotations = [{ x: 0, xref: "paper", y: log ? Math.log10(plot.floor) : plot.floor,
      text: `floor ${plot.floor.toPrecision(3)}`, showarrow: false, xanchor: "left", yanchor: "bottom" }];
  }
  return { data: traces, layout, name: [view.x, view.logX, log].join() };
}

// ---- Drawing ----------------------------------------------------------------------------------------

function painted(trace) {
  const { cell, role } = trace.meta;
  const c = color(cell);
  const result = { ...trace, visible: !hidden.has(cell), showlegend: false };
  if (role === "band") return { ...result, fillcolor: fade(c, dark.matches ? 0.22 : 0.16) };
  if (trace.line) result.line = { ...trace.line, color: c };
  if (trace.marker) result.marker = { ...trace.marker, color: c, line: { ...trace.marker.line, color: c } };
  if (trace.error_y) result.error_y = { ...trace.error_y, color: c };
  return result;
}

function layoutOf(figure, small) {
  const axis = { gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, tickcolor: css("--line"),
    automargin: true, exponentformat: "power" };
  const layout = JSON.parse(JSON.stringify(figure.layout));
  // On a log axis Plotly writes 2 and 5 between the tens alone; the whole number is clearer.
  const log = (a) => (a.type === "log" ? { tickformat: "~g" } : {});
  const size = small || narrow.matches ? 12 : 14;
  const titled = (a) => ({ ...a, title: { ...a.title, font: { size }, standoff: 8 } });
  return {
    ...layout,
    xaxis: { ...axis, ...titled(layout.xaxis), ...(layout.xaxis.tickvals && narrow.matches ? { tickangle: -60 } : {}) },
    yaxis: { ...axis, ...titled(layout.yaxis), ...log(layout.yaxis) },
    font: { family: getComputedStyle(document.body).fontFamily, size, color: css("--soft") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    hoverlabel: { align: "left", font: { size: 13 } },
    margin: { l: 48, r: 14, t: 12, b: small ? 34 : 44 },
    dragmode: narrow.matches ? false : "zoom",  // a finger scrolls the page
    uirevision: figure.name,
  };
}

const config = { responsive: true, displaylogo: false, displayModeBar: false };
const ids = [...Object.keys(report.plots), ...Object.keys(report.figures)];
const figureOf = (id) => (report.plots[id] ? curvesFigure(id) : report.figures[id]);
const small = (id) => !["loss", "rates", "scaling"].includes(id);

function draw(id) {
  const figure = figureOf(id);
  return Plotly.react(id, figure.data.map(painted), layoutOf(figure, small(id)), config);
}

// What is far below is drawn when it comes near: a long page opens at once.
const drawn = new Set();
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting || drawn.has(entry.target.id)) continue;
    drawn.add(entry.target.id);
    near.unobserve(entry.target);
    draw(entry.target.id);
  }
}, { rootMargin: "1200px" });

function redraw() {
  drawn.forEach(draw);
  all("[data-swatch]").forEach(paintSwatch);
  all("[data-toggle]").forEach((b) => b.setAttribute("aria-pressed", String(!hidden.has(+b.dataset.toggle))));
  all("tr[data-cell]").forEach((row) => { row.hidden = hidden.has(+row.dataset.cell); });
  all("[data-cells]").forEach((panel) => {
    panel.hidden = panel.dataset.cells.split(" ").every((cell) => hidden.has(+cell));
  });
  all("[data-x]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.x === view.x)));
  all("[data-log]").forEach((b) =>
    b.setAttribute("aria-pressed", String(b.dataset.log === "x" ? view.logX : view.logY)));
}

// ---- Saving what is shown ---------------------------------------------------------------------------

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvOf = (rows) => rows.map((row) => row.map((field) => quoted(String(field ?? ""))).join(",") + "\n").join("");

const labelOf = (trace) => trace.meta.label ?? report.cells[trace.meta.cell].label;

function plotRows(id) {
  const { data, layout } = document.getElementById(id);
  const shown = data.filter((trace) => trace.visible !== false && !["band", "cross"].includes(trace.meta.role));
  const half = (trace, i) => (id === "loss" && trace.customdata ? trace.customdata[i] : "");
  const y = report.plots[id]?.title || layout.yaxis.title.text || "value";
  return [["curve", "kind", layout.xaxis.title.text, y, "95 % interval ±"], ...shown.flatMap((trace) => trace.x.map(
    (x, i) => [labelOf(trace), trace.meta.role, x, trace.y[i], half(trace, i)]))];
}

function tableRows() {
  const shown = (element) => element.offsetParent !== null;
  return all("#table tr").filter(shown)
    .map((row) => [...row.cells].filter(shown).map((cell) => cell.textContent.trim()));
}

const markdownOf = ([head, ...rows]) => [head, head.map((_, i) => (i ? "---:" : "---")), ...rows]
  .map((row) => `| ${row.map((field) => field.replaceAll("|", "\\|")).join(" | ")} |\n`).join("");

const latexWords = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$",
  "−": "$-$", "·": "$\\cdot$", "×": "$\\times$" };
const latex = (text) => text.replace(/[\\~^±−·×&%$#_{}]/g, (c) => latexWords[c] ?? `\\${c}`);
function latexOf([head, ...rows]) {
  const line = (row) => `${row.map(latex).join(" & ")} \\\\\n`;
  return `% needs \\usepackage{booktabs}\n\\begin{tabular}{l${"r".repeat(head.length - 1)}}\n\\toprule\n${line(head)}` +
    `\\midrule\n${rows.map(line).join("")}\\bottomrule\n\\end{tabular}\n`;
}

const texts = { CSV: csvOf, Markdown: markdownOf, LaTeX: latexOf };
const endings = { CSV: "csv", Markdown: "md", LaTeX: "tex" };
const textOf = (id, kind) => texts[kind](id === "table" ? tableRows() : plotRows(id));

// The picture carries its legend, which on the page stands above.
function pictureOf(id) {
  const { data, layout } = document.getElementById(id);
  const named = new Set();
  const traces = data.map((trace) => {
    const first = trace.visible !== false && ["val", "lost", "rate", "profile", "size"].includes(trace.meta.role) &&
      !named.has(trace.meta.cell);
    if (first) named.add(trace.meta.cell);
    return { ...trace, name: labelOf(trace), showlegend: first, legendrank: trace.meta.cell };
  });
  const paper = css("--paper");
  return { data: traces, config, layout: { ...layout, autosize: false, width: 1100, height: 620, showlegend: true,
    legend: { x: 1.01, y: 1, font: { size: 14 } }, paper_bgcolor: paper, plot_bgcolor: paper,
    margin: { ...layout.margin, l: 60, t: 24, b: 56, r: 20 } } };
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function save(id, kind) {
  if (texts[kind]) return download(`${id}.${endings[kind]}`, textOf(id, kind));
  return Plotly.downloadImage(pictureOf(id), { format: kind.toLowerCase(), width: 1100, height: 620, filename: id,
    scale: kind === "PNG" ? 2 : 1 });
}

// ---- What can be clicked ----------------------------------------------------------------------------

all("[data-toggle]").forEach((button) => {
  const cell = +button.dataset.toggle;
  button.addEventListener("click", () => {
    if (!hidden.delete(cell)) hidden.add(cell);
    redraw();
  });
  button.addEventListener("dblclick", () => {  // only this one; once more: all of them
    const others = report.cells.map((_, i) => i).filter((i) => i !== cell);
    const alone = others.length > 0 && others.every((i) => hidden.has(i));
    hidden.clear();
    if (!alone) others.forEach((i) => hidden.add(i));
    redraw();
  });
});

function change(how) {
  Object.assign(view, how);
  redraw();
}
all("[data-x]").forEach((b) => b.addEventListener("click", () => change({ x: b.dataset.x })));
all("[data-log]").forEach((b) => b.addEventListener("click", () =>
  change(b.dataset.log === "x" ? { logX: !view.logX } : { logY: !view.logY })));
all("[data-save]").forEach((b) => b.addEventListener("click", () => save(b.dataset.of, b.dataset.save)));
const smoothing = document.getElementById("smoothing");
view.smoothing = +smoothing.value;
smoothing.addEventListener("change", () => change({ smoothing: +smoothing.value }));

all("thead th").forEach((head) => {
  const sort = () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const body = head.closest("table").tBodies[0];
    const key = (row) => row.cells[head.cellIndex].dataset.key;
    const order = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    const rows = [...body.rows].sort((a, b) => {  // what was not measured stays at the end
      if (!key(a) || !key(b)) return (key(a) ? 0 : 1) - (key(b) ? 0 : 1);
      return (up ? 1 : -1) * order(key(a), key(b));
    });
    body.append(...rows);
    head.parentElement.querySelectorAll("th").forEach((h) => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  };
  head.addEventListener("click", sort);
});

// A table wider than the page says so until its end is in view.
all(".scroll").forEach((box) => {
  const mark = () => {
    const more = box.scrollLeft + box.clientWidth < box.scrollWidth - 2;
    box.classList.toggle("more", more);
    box.parentElement.querySelector(".hint").hidden = !more;
  };
  box.addEventListener("scroll", mark);
  new ResizeObserver(mark).observe(box);
  new ResizeObserver(mark).observe(box.firstElementChild);
});
const columns = document.getElementById("all-columns");
columns?.addEventListener("click", () => {
  const on = document.getElementById("table").classList.toggle("all");
  columns.setAttribute("aria-pressed", String(on));
});

all("[data-copy]").forEach((button) =>
  button.addEventListener("click", async () => {
    const pre = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(pre.textContent);
    } catch {  // not allowed for a page from a file: the old way
      getSelection().selectAllChildren(pre);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }));

const asked = all("[data-x]").find((b) => `#${b.dataset.x}` === location.hash);
if (asked && !asked.disabled) view.x = asked.dataset.x;
redraw();
ids.forEach((id) => near.observe(document.getElementById(id)));
dark.addEventListener("change", redraw);
narrow.addEventListener("change", redraw);
addEventListener("beforeprint", () => ids.forEach(draw));
