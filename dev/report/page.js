"use strict";
// The page: colours, legend, switch, sorting, copying. Every figure comes ready from figures.py but for its colours.

const report = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const hidden = new Set();

const colour = (cell) => report.cells[cell][dark.matches ? "dark" : "light"];
const fade = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- Lines and markers as small pictures, for the legend and the table ----------------------------

const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
function swatch(cell) {
  return `<svg width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" stroke="${colour(cell)}"
    stroke-width="2.6" stroke-dasharray="${dashes[report.cells[cell].dash]}"/></svg>`;
}

// ---- Figures --------------------------------------------------------------------------------------

function painted(trace) {
  const { cell, role } = trace.meta;
  const c = colour(cell);
  const result = { ...trace, visible: !hidden.has(cell) };
  if (role === "band") return { ...result, fillcolor: fade(c, dark.matches ? 0.22 : 0.16) };
  if (trace.line) result.line = { ...trace.line, color: c };
  if (trace.marker) result.marker = { ...trace.marker, color: c, line: { ...trace.marker.line, color: c } };
  return result;
}

function layoutOf(figure, small) {
  const axis = { gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, tickcolor: css("--line"),
    automargin: true, exponentformat: "power" };
  const layout = JSON.parse(JSON.stringify(figure.layout));
  // On a log axis Plotly writes 2 and 5 between the tens, alone: the whole number is wanted.
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
let xKind = location.hash === "#seconds" && report.loss.seconds ? "seconds" : "step";
const figureOf = (id) => (id === "loss" ? { ...report.loss[xKind], name: xKind } : report.figures[id]);

function draw(id) {
  const figure = figureOf(id);
  const small = id.startsWith("profile");
  return Plotly.react(id, figure.data.map(painted), layoutOf(figure, small), config);
}
const ids = ["loss", ...Object.keys(report.figures)];

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
  document.querySelectorAll("[data-swatch]").forEach((place) => { place.innerHTML = swatch(+place.dataset.swatch); });
  document.querySelectorAll("[data-toggle]").forEach((button) =>
    button.setAttribute("aria-pressed", String(!hidden.has(+button.dataset.toggle))));
}

// ---- What can be clicked ----------------------------------------------------------------------------

document.querySelectorAll("[data-toggle]").forEach((button) => {
  const cell = +button.dataset.toggle;
  button.addEventListener("click", () => {
    if (!hidden.delete(cell)) hidden.add(cell);
    redraw();
  });
  button.addEventListener("dblclick", () => {  // this one alone; once more: all of them
    const others = report.cells.map((_, i) => i).filter((i) => i !== cell);
    const alone = others.length > 0 && others.every((i) => hidden.has(i));
    hidden.clear();
    if (!alone) others.forEach((i) => hidden.add(i));
    redraw();
  });
});

document.querySelectorAll("[data-x]").forEach((button) =>
  button.addEventListener("click", () => {
    xKind = button.dataset.x;
    document.querySelectorAll("[data-x]").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    draw("loss");
  }));
document.querySelectorAll("[data-x]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.x === xKind)));

document.querySelectorAll("th").forEach((head) => {
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

document.querySelectorAll("[data-copy]").forEach((button) =>
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

redraw();
ids.forEach((id) => near.observe(document.getElementById(id)));
dark.addEventListener("change", redraw);
narrow.addEventListener("change", redraw);
addEventListener("beforeprint", () => ids.forEach(draw));
