// ---- The page: the race, the tour, the link ------------------------------------------------------------

const $ = (id) => document.getElementById(id);
const kObservations = 60;   // statistics in a race
const kAskMs = 1000;        // between questions of the open view
const state = { race: null, models: [], chosen: 0, view: "gradients", plots: [], log: false, dirty: true, askedAt: 0,
  asking: false, guess: null };

// ---- The race ------------------------------------------------------------------------------------------

const kSteps = 1000;  // the program's default
const stepsOf = ({ common: { steps } }) => (steps > 0 && Number.isFinite(+steps) ? +steps : kSteps);

function create() {
  state.models.forEach((model) => model.end());
  const every = Math.max(1, Math.round(stepsOf(state.race) / kObservations));
  state.models = state.race.models.map(({ name, settings }) =>
    new Model(name, { ...state.race.common, ...settings }, changed));
  state.models.forEach((model) => model.start(state.race.text, every));
}

const going = () => state.models.some((model) => model.state === "running");

function run() {
  if (!state.models.length || allOver()) create();
  state.models.forEach((model) => (model.state === "loading" ? (model.wanted = true) : model.run()));
  showState();
}

function pause() {
  state.models.forEach((model) => { model.wanted = false; model.pause(); });
  showState();
}

function changed(model, type) {
  if (!state.models.includes(model)) return;
  if (type === "ready" && model.wanted) model.run();
  if (type === "ready" && model.steps) model.send("step", { count: model.steps });
  if (type === "statistics" && state.view !== "later" && state.race.view === "later") measureLeak(model);
  state.dirty = true;
  if (["error", "diverged", "finished", "ready"].includes(type)) showState();
}

// The claim of a scene reads it even if its view is closed.
const measureLeak = (model) => askLeak(model, ...kTexts).catch(() => {});

function oneStep() {
  if (!state.models.length || allOver()) create();
  for (const model of state.models) {
    if (model.state === "loading") model.steps = (model.steps ?? 0) + 1;
    else if (!model.over) model.send("step", { count: 1 });
  }
}

// No line ends inside Post-LN or y = norm(x).
const unbroken = (text) => text.replaceAll("-LN", "\u2011LN")
  .replace(/\by = [^.,]*\)/g, (formula) => formula.replaceAll(" ", "\u00a0"));

function setRace(race) {
  state.models.forEach((model) => model.end());
  Object.assign(state, { race, models: [], chosen: race.inside ?? 0, guess: null, dirty: true });
  $("title").textContent = race.title ?? "Your own race";
  $("what").textContent = unbroken(race.what ?? "All models see the same text in the same order.");
  $("look").textContent = unbroken(race.look ?? "");
  $("look").hidden = !race.look;
  document.querySelectorAll("#tour [data-scene]").forEach((button) =>
    button.setAttribute("aria-current", String(button.dataset.scene === race.id)));
  drawForm(race);
  openView(race.view ?? state.view);
  showState();
}

// ---- What is shown -------------------------------------------------------------------------------------

const kStates = { loading: "loads", ready: "ready", running: "", paused: "paused", finished: "finished",
  diverged: "diverged", failed: "failed" };
const allOver = () => state.models.length > 0 && state.models.every((model) => model.over);

function showState() {
  const failed = state.models.find((model) => model.state === "failed");
  $("error").hidden = !failed;
  $("error").textContent = failed ? `${failed.name}: ${failed.message}` : "";
  const waiting = state.models.some((model) => model.wanted && model.state === "loading");
  $("run").textContent = going() || waiting ? "Pause" : allOver() ? "Run again" : "Run";
  $("run").classList.toggle("primary", !going());
  drawQuestion();
  state.dirty = true;
}

function card(model, i) {
  const { name } = state.race.models[i];
  const loss = model?.rows.loss.length ? fixed(model.loss()) : "–";
  const speed = model?.speed ? `${Math.round(model.speed).toLocaleString("en")} tokens/s` : "";
  const status = model ? kStates[model.state] || speed : "";
  const step = model?.step ? `step ${model.step.toLocaleString("en")}` : "";
  const chosen = i === state.chosen, small = [step, status].filter(Boolean).join(", ");
  return html`<button type="button" class="card ${model?.state ?? ""}" data-card="${i}" aria-pressed="${chosen}">
    <span>${swatch(i)} ${name}</span><b>${loss}</b><small>${small}</small></button>`;
}

function drawCards() {
  const focused = document.activeElement?.dataset?.card;
  show($("cards"), each(state.race.models, (_, i) => card(state.models[i], i)));
  if (focused !== undefined) document.querySelector(`[data-card="${focused}"]`)?.focus();
}

// The mean of up to 10 steps that end here, so that curves can be told apart; the CSV has every step.
function smoothed(values) {
  let sum = 0;
  return values.map((value, i) => {
    sum += value - (i >= 10 ? values[i - 10] : 0);
    return sum / Math.min(i + 1, 10);
  });
}

const ready = () => state.models.find((model) => model.ready)?.ready;

const unigramWords = () => `unigram entropy${narrow.matches ? "" : ": knows how often each character occurs"}`;

// What the losses of the stories can be compared with. A text of one's own has no known floor.
function levels() {
  if (!ready()) return [];
  const { unigram, floor } = ready();
  return [{ y: unigram, text: unigramWords() },
    ...(floor > 0 ? [{ y: floor, text: `floor ${fixed(floor)}: the entropy of the stories` }] : [])];
}

const lossPlot = new Plot($("loss"), { x: "step", y: "", height: 230, span: () => stepsOf(state.race),
  range: (u, low, high) => [0, Math.max(1, Math.min(high ?? 4, (ready()?.uniform ?? 4) + 0.3) * 1.02)], levels,
  empty: "Press “Run” to train these models" });

function drawLoss() {
  const tables = state.models.map(({ rows }) => [rows.step, smoothed(rows.loss)]);
  const series = state.models.map((_, i) => ({ color: colorOf(i), dash: kDashes[i], width: 2.2 }));
  lossPlot.options.log = state.log;
  const data = tables.length ? uPlot.join(tables) : [[0, stepsOf(state.race)]];
  lossPlot.draw(series, data, !tables.length ? lossPlot.options.empty : `Loss by step. ${state.models.map((model) =>
    `${model.name}: ${fixed(model.loss())} at step ${model.step}`).join("; ")}`);
}

// ---- Predict first --------------------------------------------------------------------------------------

const kSame = 0.1;  // nats: losses that are closer count as the same

const answers = () => [...state.race.models.map(({ name }) => name), "no clear difference"];

// The index of the model with the lowest loss, in answers().
function outcome() {
  const losses = state.models.map((model) => (model.state === "finished" ? model.loss() : Infinity));
  const [lowest, next] = losses.toSorted((a, b) => a - b);
  return next - lowest < kSame || lowest === Infinity ? losses.length : losses.indexOf(lowest);
}

function drawQuestion() {
  $("predict").hidden = state.models.length > 0;
  if ($("predict").hidden) return;
  show($("predict"), html`<span><b>Predict first:</b> which model will end with the lowest loss? Your answer starts the
    training.</span>${answers().map((name, i) =>
    html`<button type="button" data-guess="${i}">${name}</button>`)}`);
}

function prediction() {
  if (state.guess === null || !allOver()) return html``;
  const found = outcome(), names = answers();
  const seen = found < state.models.length ? `${names[found]} ends lowest, at ${fixed(state.models[found].loss())}`
    : `the lowest losses are less than ${kSame} apart`;
  return html`<p>You predicted: ${names[state.guess]}. ${found === state.guess ? "Right" : "Not so"}: ${seen}.</p>`;
}

function checks() {
  const complete = allOver() && state.models.every((model) => model.state !== "failed");
  return state.race.claim && complete ? state.race.claim(state.models) : [];
}

function drawVerdict() {
  const list = checks();
  const line = ({ text, held }) => html`<li class="${held ? "held" : "open"}">${text}${
    held ? "" : html` <b>(the claim does not hold in this run)</b>`}</li>`;
  const why = list.every(({ held }) => held) ? html`<p>${state.race.why ?? ""}</p>` : "";
  const guessed = prediction();
  const verdict = list.length || guessed.text
    ? html`<h3>What these runs show</h3>${guessed}<ul>${each(list, line)}</ul>${list.length ? why : ""}` : html``;
  if (verdict.text !== state.verdict) show($("verdict"), verdict);
  state.verdict = verdict.text;
  $("done").hidden = !verdict.text;
}

function drawProgress() {
  const steps = stepsOf(state.race);
  const counts = state.models.filter(({ state: now }) => !["diverged", "failed"].includes(now)).map(({ step }) => step);
  const done = counts.length ? Math.min(...counts) : 0;
  $("progress").value = done / steps;
  $("steps").textContent = `step ${done.toLocaleString("en")} of ${steps.toLocaleString("en")}`;
}

// ---- Views ---------------------------------------------------------------------------------------------

function openView(name) {
  state.plots.forEach((plot) => plot.end());
  state.view = name;
  document.querySelectorAll("#views [data-view]").forEach((button) =>
    button.setAttribute("aria-pressed", String(button.dataset.view === name)));
  $("view-note").textContent = kViews[name].note;
  const place = document.createElement("div");  // without the listeners of the last view
  place.id = "view";
  $("view").replaceWith(place);
  state.plots = kViews[name].open(place);
  state.askedAt = 0;
  state.dirty = true;
}

function drawView() {
  const view = kViews[state.view], chosen = state.models[state.chosen];
  const { name } = state.race.models[state.chosen];
  document.querySelectorAll(".chosen").forEach((place) => { place.textContent = name; });
  if (!chosen) return;
  view.draw?.(state.plots, { models: state.models, chosen });
  if (view.ask && chosen.ready && !state.asking && performance.now() - state.askedAt > kAskMs) askView(view, chosen);
}

async function askView(view, chosen) {
  state.asking = true;
  const name = state.view;
  try {
    await view.ask({ models: state.models.filter((model) => model.ready), chosen });
  } catch (error) {
    if (state.view === name) $("view-note").textContent = `${view.note} (${error.message})`;
  }
  state.asking = false;
  state.askedAt = performance.now();
}

function draw() {
  drawCards();
  drawLoss();
  drawView();
  drawVerdict();
  drawProgress();
}

setInterval(() => {
  if (!state.dirty && !(kViews[state.view].ask && going())) return;
  state.dirty = false;
  draw();
}, 200);

// ---- Link and CSV --------------------------------------------------------------------------------------

const fragmentOf = ({ id, common, models }) => (id ? `#scene=${id}`
  : `#race=${encodeURIComponent(JSON.stringify({ common, models: models.map(({ settings }) => settings) }))}`);

function raceOf(fragment) {
  const [kind, value] = [fragment.slice(1, fragment.indexOf("=")), fragment.slice(fragment.indexOf("=") + 1)];
  if (kind === "scene") return kScenes.find((scene) => scene.id === value) ?? null;
  if (kind !== "race") return null;
  const { common, models } = JSON.parse(decodeURIComponent(value));
  if (!models?.length || models.length > kMost) throw new Error("a race has two to four models");
  return named({ common, models: models.map((settings) => ({ settings })), text: null });
}

function followLink() {
  if (state.race && location.hash === fragmentOf(state.race)) return;
  try {
    setRace(withText(raceOf(location.hash) ?? kScenes[0]));
  } catch (error) {
    setRace(withText(kScenes[0]));
    $("error").hidden = false;
    $("error").textContent = `The link holds no race: ${error.message}`;
  }
}

const withText = (race) => ({ text: null, ...race });
const setLink = () => history.replaceState(null, "", fragmentOf(state.race));

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text);
const csv = () => `model,step,loss,grad_norm,lr\n${state.models.map(({ name, rows }) => rows.step.map((step, i) =>
  `${quoted(name)},${step},${rows.loss[i]},${rows.gradNorm[i]},${rows.lr[i]}\n`).join("")).join("")}`;

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function copyLink() {
  setLink();
  try {
    await navigator.clipboard.writeText(location.href);
    $("link").textContent = "Copied";
  } catch {  // a page from a file may not write there; the address bar holds the link
    $("link").textContent = "See the address bar";
  }
  setTimeout(() => { $("link").textContent = "Copy link"; }, 2000);
}

// ---- What can be clicked -------------------------------------------------------------------------------

const motion = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

function openRace(race) {
  setRace(withText(race));
  setLink();
  $("race").scrollIntoView({ behavior: motion() });
}

function begin(race) {
  openRace(race);
  run();
}

show($("tour"), html`<h2>A tour of eight scenes</h2><ol>${each(kScenes, ({ id, title }, i) =>
  html`<li><button type="button" data-scene="${id}"><i>${i + 1}</i> ${title}</button></li>`)}</ol>`);
show($("views"), each(Object.entries(kViews), ([id, { name }]) =>
  html`<button type="button" data-view="${id}">${name}</button>`));

$("first").addEventListener("click", () => openRace(kScenes[0]));
$("tour").addEventListener("click", (event) => {
  const button = event.target.closest("[data-scene]");
  if (button) openRace(kScenes.find(({ id }) => id === button.dataset.scene));
});
$("views").addEventListener("click", ({ target }) => { if (target.dataset.view) openView(target.dataset.view); });
$("cards").addEventListener("click", (event) => {
  const button = event.target.closest("[data-card]");
  if (!button) return;
  Object.assign(state, { chosen: +button.dataset.card, askedAt: 0, dirty: true });
});
$("predict").addEventListener("click", ({ target }) => {
  if (target.dataset.guess === undefined) return;
  state.guess = +target.dataset.guess;
  run();
});
$("run").addEventListener("click", () => ($("run").textContent === "Pause" ? pause() : run()));
$("step").addEventListener("click", oneStep);
$("restart").addEventListener("click", () => { create(); run(); });
$("link").addEventListener("click", copyLink);
$("done").addEventListener("click", (event) => {  // the fragment of the address holds the race
  event.preventDefault();
  $("verdict").scrollIntoView({ behavior: motion() });
});
$("csv").addEventListener("click", () => download("losses.csv", csv()));
$("log").addEventListener("change", () => { Object.assign(state, { log: $("log").checked, dirty: true }); });
document.addEventListener("input", ({ target }) => {
  if (target.closest("#view")) Object.assign(state, { askedAt: 0, dirty: true });
});

function fromForm(change = (race) => race) {
  try {
    return change(readForm(state.race));
  } catch (error) {
    $("error").hidden = false;
    $("error").textContent = error.message;
    return null;
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const race = fromForm();
  if (race) begin(race);
});
$("form").addEventListener("click", (event) => {
  const { remove } = event.target.dataset;
  if (event.target.id !== "add" && remove === undefined) return;
  const race = fromForm((all) => ({ ...all, models: remove === undefined ? [...all.models, all.models.at(-1)]
    : all.models.filter((_, i) => i !== +remove) }));
  if (race) setRace(named(race));
});

// A page of the book shows a scene alone.
document.documentElement.classList.toggle("framed", self !== top);
dark.addEventListener("change", () => { state.dirty = true; });
addEventListener("hashchange", followLink);
followLink();
engineOptions().then((options) => { optionTable = options; drawForm(state.race); });
