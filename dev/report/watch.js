"use strict";
// Asks for the runs every two seconds and draws those that are shown.

const { palette } = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const $ = (id) => document.getElementById(id);

const MANY = 12;  // so many curves are drawn without the training loss of those that were validated

let runs = [], groups = new Map(), pointed = null;
const hidden = new Set();
const view = { condition: "all", filter: "", group: "", logY: false };

// ---- Which runs -------------------------------------------------------------------------------------

const folder = (run) => run.name.split("/").slice(0, -1).join("/") || ".";
const groupOf = (run) => (view.group === "folder" ? folder(run) : view.group && (run.options[view.group] ?? "not set"));
const textOf = (run) => [run.name, ...Object.entries(run.options).map(([key, value]) => `${key}=${value}`)]
  .join(" ").toLowerCase();

function listed() {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => (view.condition === "all" || run.condition === view.condition) &&
    words.every((word) => textOf(run).includes(word)));
}

const look = (run) => palette[(view.group ? [...groups.keys()].indexOf(groupOf(run)) : run.number) % palette.length];
const color = (run) => look(run)[dark.matches ? "dark" : "light"];

// ---- Plots ------------------------------------------------------------------------------------------

// Runs with different tokenizers are compared in bits per byte; a training loss has no such number.
const inBits = () => runs.some((run) => run.in_bits);
const bits = (run) => (run.in_bits ? run.bits ?? NaN : 1);
function values(run, column) {
  if (!run.in_bits || !column.endsWith("_loss")) return run[column];
  return column === "val_loss" ? [run.val_loss[0], run.val_loss[1].map((loss) => loss * bits(run))] : [[], []];
}

function trace(run, column, width, faint) {
  const [x, y] = values(run, column);
  const back = pointed && pointed !== run.name;
  return { x, y, mode: x.length > 1 ? "lines" : "markers", name: run.name, marker: { color: color(run) },
    line: { color: color(run), dash: look(run).dash, width: pointed === run.name ? width + 1 : width },
    opacity: back ? 0.12 : faint ?? 1,
    hovertemplate: `<b>${run.name}</b><br>step %{x:,.0f}: %{y:.4g}<extra></extra>` };
}

function draw(id, traces, title, more) {
  const axis = { gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, automargin: true };
  Plotly.react(id, traces, {
    xaxis: { ...axis, title: { text: "step" }, rangemode: "tozero" },
    yaxis: { ...axis, title: { text: title }, ...more },
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--soft") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    margin: { l: 48, r: 14, t: 12, b: 40 }, uirevision: "kept",  // a zoom stays while new points come
  }, { responsive: true, displayModeBar: false });
}

// From the lowest loss to the median of the first ones: an explosion does not press all other curves flat.
function lossRange(shown, column) {
  const firsts = shown.map((run) => values(run, column)[1][0]).filter((x) => x !== undefined).sort((a, b) => a - b);
  const lowest = Math.min(...shown.flatMap((run) => [...values(run, "train_loss")[1], ...values(run, "val_loss")[1]]));
  const first = firsts[firsts.length >> 1], margin = 0.05 * (first - lowest);
  if (view.logY) return { type: "log", tickformat: "~g", range: [Math.log10(lowest / 1.05), Math.log10(first * 1.1)] };
  return margin > 0 ? { range: [lowest - margin, first + 3 * margin] } : {};
}

function plots() {
  const shown = listed().filter((run) => run.step > 0 && !hidden.has(run.name));
  const many = shown.length > MANY;
  const training = shown.filter((run) => !many || !run.val_loss[0].length || run.name === pointed);
  draw("loss", [...training.map((run) => trace(run, "train_loss", 1, 0.55)),
    ...shown.map((run) => trace(run, "val_loss", many ? 1.6 : 2.6))], `loss (${inBits() ? "bits per byte" : "nats per token"})`,
    lossRange(shown, many || inBits() ? "val_loss" : "train_loss"));
  draw("grad_norm", shown.map((run) => trace(run, "grad_norm", 1)), "", { type: "log", tickformat: "~g" });
  draw("lr", shown.map((run) => trace(run, "lr", 1.5)), "", {});
  $("drawn").textContent = (inBits() ? "Validation loss in bits per byte, because the tokens of these runs differ."
    : many ? `Validation loss of ${shown.length} runs; point at a run for its training loss.`
    : "Bold: validation loss. Thin: training loss, smoothed.");
  document.body.dataset.shown = shown.map((run) => run.step).join(",");
}

// ---- The list ---------------------------------------------------------------------------------------

const minutes = (s) => (s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`);
const duration = (s) => (s < 90 ? `${Math.round(s)} s` : minutes(s));
const last = (run, column) => values(run, column)[1].at(-1);

function timing(run) {
  if (run.condition === "stopped") return `stopped, silent for ${duration(Date.now() / 1000 - run.written)}`;
  if (run.condition !== "training") return run.condition;
  const left = run.step > 0 ? run.elapsed / run.step * (run.steps - run.step) : 0;
  return left > 0 ? `${duration(left)} left` : "training";
}

function line(run) {
  const parts = [`step ${whole.format(run.step)}${run.steps ? ` of ${whole.format(run.steps)}` : ""}`];
  if (last(run, "train_loss") !== undefined) parts.push(`training ${last(run, "train_loss").toFixed(4)}`);
  if (last(run, "val_loss") !== undefined)
    parts.push(`validation ${last(run, "val_loss").toFixed(4)}${run.in_bits ? " bits per byte" : ""}`);
  if (run.speed && run.condition === "training") parts.push(`${whole.format(run.speed)} tokens/s`);
  return [...parts, timing(run)].join(" · ");
}

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function box(some, label) {
  const shown = some.filter((run) => !hidden.has(run.name)).length;
  return make("input", { type: "checkbox", checked: shown > 0, indeterminate: shown > 0 && shown < some.length,
    ariaLabel: `show ${label}`, onchange: (event) => {
      some.forEach((run) => (event.target.checked ? hidden.delete(run.name) : hidden.add(run.name)));
      show();
    } });
}

function point(name) {
  pointed = name;
  plots();
}

function row(run) {
  const name = make("span", { className: "of" }, run.name);
  name.style.color = color(run);
  const bar = make("progress", { max: run.steps || Math.max(run.step, 1), value: run.step });
  const element = make("label", { className: `run ${run.condition}`, onmouseenter: () => point(run.name),
    onmouseleave: () => point(null) }, box([run], run.name), name, bar, make("span", { className: "note" }, line(run)));
  return element;
}

function heading(name, some) {
  const best = Math.min(...some.map((run) => last(run, "val_loss") ?? Infinity));
  const title = view.group === "folder" ? name : `${view.group} = ${name}`;
  const element = make("label", { className: "group" }, box(some, title),
    make("span", {}, `${title}: ${some.length} run${some.length > 1 ? "s" : ""}` +
      (best < Infinity ? `, lowest validation ${best.toFixed(4)}` : "")));
  element.style.color = color(some[0]);
  return element;
}

function list() {
  const shown = listed();
  groups = Map.groupBy ? Map.groupBy(shown, groupOf) : shown.reduce((map, run) =>
    map.set(groupOf(run), [...(map.get(groupOf(run)) ?? []), run]), new Map());
  const all = shown.length > 1 ? [make("label", { className: "group" }, box(shown, "all"),
    make("span", {}, `all ${shown.length} listed`))] : [];
  $("runs").replaceChildren(...all, ...[...groups].flatMap(([name, some]) =>
    [...(view.group ? [heading(name, some)] : []), ...some.map(row)]));
}

function controls() {
  for (const button of document.querySelectorAll("[data-condition]")) {
    const kind = button.dataset.condition;
    const count = runs.filter((run) => kind === "all" || run.condition === kind).length;
    button.querySelector("i").textContent = count;
    button.hidden = kind !== "all" && !count && kind !== view.condition;
    button.setAttribute("aria-pressed", String(kind === view.condition));
  }
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.options)))];
  const choices = ["", ...(new Set(runs.map(folder)).size > 1 ? ["folder"] : []), ...keys];
  if (choices.join() !== [...$("group").options].map((option) => option.value).join())
    $("group").replaceChildren(...choices.map((key) => new Option(key || "nothing", key, false, key === view.group)));
  document.querySelectorAll(".several").forEach((tool) => { tool.hidden = runs.length < 2; });
}

function headline() {
  if (!runs.some((run) => run.step > 0)) return "Waiting for the first step";
  if (runs.length === 1) return line(runs[0]);
  const count = (kind) => runs.filter((run) => run.condition === kind).length;
  const said = ["training", "finished", "diverged", "stopped"].filter(count).map((kind) => `${count(kind)} ${kind}`);
  return `${runs.length} runs: ${said.join(", ")}`;
}

function show() {
  $("headline").textContent = headline();
  controls();
  list();
  plots();
}

$("filter").addEventListener("input", (event) => { view.filter = event.target.value; show(); });
$("group").addEventListener("change", (event) => { view.group = event.target.value; show(); });
document.querySelectorAll("[data-condition]").forEach((button) => button.addEventListener("click", () => {
  view.condition = button.dataset.condition;
  show();
}));

$("log").addEventListener("click", (event) => {
  view.logY = !view.logY;
  event.target.setAttribute("aria-pressed", String(view.logY));
  plots();
});

let before = null;
async function ask() {
  try {
    const answer = await fetch("/runs.json");
    const text = await answer.text();
    runs = JSON.parse(text);
    if (text !== before) show();
    before = text;
    document.title = document.title.replace(/ \(ended\)$/, "");
  } catch {
    if (!document.title.endsWith("(ended)")) document.title += " (ended)";  // the last picture stays
  }
  setTimeout(ask, 2000);
}
dark.addEventListener("change", () => { before = null; });
ask();
