"use strict";
// Asks for the runs every two seconds and draws what has changed.

const dark = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (run) => run[dark.matches ? "dark" : "light"];
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function trace(run, column, line) {
  const [x, y] = run[column];
  return { x, y, mode: x.length > 1 ? "lines" : "markers", name: run.name, marker: { color: colour(run) },
    line: { color: colour(run), dash: run.dash, ...line }, opacity: line.opacity ?? 1,
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

const minutes = (s) => (s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`);
const duration = (s) => (s < 90 ? `${Math.round(s)} s` : minutes(s));
const last = (run, column) => run[column][1].at(-1);

function line(run) {
  const parts = [`step ${whole.format(run.step)}${run.steps ? ` of ${whole.format(run.steps)}` : ""}`];
  if (last(run, "train_loss") !== undefined) parts.push(`training ${last(run, "train_loss").toFixed(4)}`);
  if (last(run, "val_loss") !== undefined) parts.push(`validation ${last(run, "val_loss").toFixed(4)}`);
  if (run.speed) parts.push(`${whole.format(run.speed)} tokens/s`);
  const left = run.step > 0 && !run.ended ? run.elapsed / run.step * (run.steps - run.step) : 0;
  if (left > 0) parts.push(`${duration(left)} left`);
  return parts.join(" · ");
}

function show(runs) {
  const begun = runs.filter((run) => run.step > 0);
  const done = runs.filter((run) => run.ended);
  const going = begun.filter((run) => !run.ended);
  document.getElementById("headline").textContent = !begun.length ? "Waiting for the first step"
    : runs.length === 1 ? line(runs[0]) : `${runs.length} runs: ${done.length} ended, ${going.length} on the way`;
  const list = document.getElementById("runs");
  list.replaceChildren(...runs.map((run) => {
    const row = document.createElement("div");
    row.className = "run";
    const bar = document.createElement("progress");
    bar.max = run.steps || Math.max(run.step, 1);
    bar.value = run.step;
    const name = document.createElement("span");
    name.textContent = run.name;
    name.style.color = colour(run);
    const said = document.createElement("span");
    said.className = "note";
    said.textContent = line(run);
    row.append(name, bar, said);
    return row;
  }));
  // An explosion does not press all other curves flat.
  const first = Math.max(...begun.map((run) => run.train_loss[1][0] ?? -Infinity));
  const lowest = Math.min(...begun.flatMap((run) => [...run.train_loss[1], ...run.val_loss[1]]));
  const margin = 0.05 * (first - lowest);
  draw("loss", [...begun.map((run) => trace(run, "train_loss", { width: 1, opacity: 0.55 })),
    ...begun.map((run) => trace(run, "val_loss", { width: 2.6 }))], "loss (nats per token)",
    margin > 0 ? { range: [lowest - margin, first + margin] } : {});
  draw("grad_norm", begun.map((run) => trace(run, "grad_norm", { width: 1 })), "", { type: "log", tickformat: "~g" });
  draw("lr", begun.map((run) => trace(run, "lr", { width: 1.5 })), "", {});
  document.body.dataset.shown = begun.map((run) => run.step).join(",");
}

let before = null;
async function look() {
  try {
    const answer = await fetch("/runs.json");
    const text = await answer.text();
    if (text !== before) show(JSON.parse(text));
    before = text;
    document.title = document.title.replace(/ \(ended\)$/, "");
  } catch {
    if (!document.title.endsWith("(ended)")) document.title += " (ended)";  // the last picture stays
  }
  setTimeout(look, 2000);
}
dark.addEventListener("change", () => { before = null; });
look();
