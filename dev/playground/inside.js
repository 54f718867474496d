// ---- Look inside: one view is open at a time -----------------------------------------------------------

const kPrompt = "The little dog was happy. He ";
const visible = (text) => text.replaceAll("\n", "↵").replaceAll(" ", "␣");
const kTexts = ["The little dog was happy.", "The little dog was happx."];  // they differ in a late character
const kParts = { "attention.q.weight": "q", "attention.v.weight": "v", "attention.o.weight": "o",
  "ffn.up.weight": "up", "ffn.down.weight": "down" };
const kNorms = ["norm_in", "norm_inner", "norm_out", "norm_sum"]
  .flatMap((norm) => [`attention.${norm}`, `ffn.${norm}`]);

const upTo = (n) => Array.from({ length: n }, (_, i) => i + 1);
const padded = (values, n) => [...values, ...Array(Math.max(0, n - values.length)).fill(null)];

const newest = (model) => model.statistics;

// One line for each model, a statistic by block, and a thin one: the same at step 1. `at` gives a model's statistics.
function compareLayers(plot, models, part, what, words, at = newest) {
  const lines = models.map((model) => model.byLayer(part, what, at(model)));
  const starts = models.map((model) => model.byLayer(part, what, model.first));
  const blocks = Math.max(1, ...lines.map((line) => line.length));
  const series = [...models.map((_, i) => ({ color: colorOf(i), dash: kDashes[i], points: true })),
    ...models.map((_, i) => ({ color: colorOf(i), width: 1, alpha: kThinAlpha }))];
  const label = models.map((model, i) => `${model.name}: ${lines[i].length
    ? `${short(lines[i][0])} in the first block, ${short(lines[i].at(-1))} in the last` : "no value yet"}`).join("; ");
  plot.draw(series, [upTo(blocks), ...[...lines, ...starts].map((line) => padded(line, blocks))], `${words}. ${label}`);
}

// One line for each of several statistics of one model.
function linesOfModel(plot, model, rows, words, legend, at = newest) {
  const found = rows.map((row) => ({ ...row, values: model.byLayer(row.part, row.what, at(model)) }))
    .filter((row) => row.values.length);
  const line = (row, i) => [colorOf(row.color ?? i), row.dash ?? kDashes[i % 4]];
  const ends = ({ text, values }) => `${text} ${short(values[0])} to ${short(values.at(-1))}`;
  const blocks = Math.max(1, ...found.map((row) => row.values.length));
  plot.draw(found.map(line).map(([color, dash]) => ({ color, dash, points: true })),
    [upTo(blocks), ...found.map((row) => padded(row.values, blocks))],
    `${words} of ${model.name}: ${found.map(ends).join(", ")}`);
  show(legend, each(found, (row, i) => html`<span>${swatchOf(...line(row, i))} ${row.text}</span>`));
}

const swatchOf = (color, dash) => html`<svg width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5"
  stroke="${color}" stroke-width="2.4" stroke-dasharray="${dash.join(" ")}"/></svg>`;

function figures(place, list, tools = html``) {
  show(place, html`${tools}<div class="figures">${list.map(([title], i) => html`<figure>
    <figcaption>${title}</figcaption>
    <div class="plot" id="figure-${i}"></div><div class="keys" id="keys-${i}"></div></figure>`)}</div>
    <div id="tower"></div>`);
  return list.map(([, options], i) => new Plot($(`figure-${i}`), { x: "block", whole: true, ...options }));
}
const keys = (i) => $(`keys-${i}`);

// The slider over the steps that have statistics. It follows the training while it stands at its end.
const kMoment = html`<div class="tools"><label>Step
  <input id="moment" type="range" min="0" max="0" value="0"> <output></output></label></div>`;
function statisticsOfSlider(models) {
  const slider = $("moment"), follows = slider.value === slider.max;
  const steps = [...new Set(models.flatMap(({ history }) => history.map(({ step }) => step)))].sort((a, b) => a - b);
  slider.max = Math.max(0, steps.length - 1);
  if (follows) slider.value = slider.max;
  const step = steps[slider.value] ?? 0;
  slider.nextElementSibling.textContent = step.toLocaleString("en");
  return (model) => model.statisticsAt(step);
}

// A view: note, open(place) once, draw(race) with each statistics, close().
const kViews = {
  gradients: {
    name: "Gradients",
    note: "Left: the size of the gradient at each block’s output, at the chosen step and at step 1 (thin). Right and " +
      "below: one model’s tensors. A box lights up if its gradient is less than 1/100 (▽) or more than 100 times (△) " +
      "of what it was at step 1. Choose the model with the cards above.",
    open: (place) => figures(place, [["Gradient norm of the stream by block, all models", { log: true }],
      [html`Gradient norm of the matrices by block, <b class="chosen"></b>`, { log: true }]], kMoment),
    draw([all, own], { models, chosen }) {
      const at = statisticsOfSlider(models);
      compareLayers(all, models, "stream", "grad_norm", "Gradient norm of the stream by block", at);
      const rows = Object.entries(kParts).map(([part, text], i) =>
        ({ part, what: "grad_norm", text, color: i % 4, dash: i === 4 ? [1, 6] : kDashes[i] }));
      linesOfModel(own, chosen, rows, "Gradient norms", keys(1), at);
      drawModel($("tower"), chosen, at(chosen) ?? null);
    },
  },
  stream: {
    name: "Stream",
    note: "The residual stream is what one block hands to the next. Left: the root mean square of its numbers. " +
      "Right: the norm of its gradient. Thin lines: at step 1.",
    open: (place) => figures(place, [["RMS of the stream by block", { log: true }],
      ["Gradient norm of the stream by block", { log: true }]]),
    draw([rms, gradient], { models, chosen }) {
      compareLayers(rms, models, "stream", "rms", "RMS of the stream by block");
      compareLayers(gradient, models, "stream", "grad_norm", "Gradient norm of the stream by block");
      drawModel($("tower"), chosen);
    },
  },
  norms: {
    name: "Norms",
    note: "The root mean square of what goes into each norm, and of what comes out. On the way back a norm divides " +
      "the gradient by the size of its input.",
    open: (place) => figures(place, [[html`Into the norms, <b class="chosen"></b>`, { log: true }],
      [html`Out of the norms, <b class="chosen"></b>`, { log: true }]]),
    draw(plots, { chosen }) {
      ["before", "after"].forEach((when, i) => {
        const rows = kNorms.map((part) => ({ part, what: `rms_${when}`, text: part.replace(".norm_", ", ") }));
        linesOfModel(plots[i], chosen, rows, `RMS ${when} the norms`, keys(i));
      });
    },
  },
  updates: {
    name: "Updates",
    note: "How far one step moves a matrix: the size of the change divided by the size of the matrix. Around 0.001 " +
      "is usual. Right: the share of a branch, its size divided by that of the skip path.",
    open: (place) => figures(place, [["Update ratio of the FFN’s down matrix by block, all models", { log: true }],
      ["FFN branch size relative to the skip path, by block, all models", { log: true }]]),
    draw([update, branch], { models }) {
      compareLayers(update, models, "ffn.down.weight", "update_ratio", "Update ratio by block");
      compareLayers(branch, models, "ffn", "branch_ratio", "Branch ratio by block");
    },
  },
  attention: {
    name: "Attention",
    note: "Each square is one head. A row is a character, and the color is strong where that character looks. " +
      "Attention is causal, so only the lower triangle is filled.",
    open(place) {
      show(place, html`<div class="tools"><label>Text
        <input id="attention-text" size="34" value="${kPrompt}"></label>
        <label>Block <select id="attention-layer"></select></label></div><div id="heads" class="heads"></div>`);
      return [];
    },
    async ask({ chosen }) {
      const select = $("attention-layer"), layers = chosen.ready.layers.length;
      if (select.length !== layers)
        show(select, each(upTo(layers), (l) => html`<option value="${l - 1}">${l}</option>`));
      const text = $("attention-text").value;
      drawHeads(await chosen.ask("attention", { text, layer: +select.value }));
    },
  },
  token: {
    name: "Through the blocks",
    note: "What the model would say next if it stopped after a block, for each character of the text. A strong color " +
      "is a certain guess. The bottom row is the embedding. Choose a column to see the size of that character’s " +
      "stream.",
    open(place) {
      show(place, html`<div class="tools"><label>Text
        <input id="trace-text" size="34" value="${kPrompt}"></label></div><div class="scroll" tabindex="0" role="region"
        aria-label="Predictions by block"><table id="trace"></table></div>
        <p id="trace-rms" class="note"></p>`);
      place.addEventListener("click", (event) => {
        const cell = event.target.closest("[data-column]");
        if (cell) { this.column = +cell.dataset.column; draw(); }
      });
      return [];
    },
    column: 5,
    async ask({ chosen }) {
      drawTrace(await chosen.ask("trace", { text: $("trace-text").value }), this.column);
    },
  },
  later: {
    name: "Later tokens",
    note: "Two texts that differ in a late character. A bar is how much the prediction at that place changes (the " +
      "largest change of a log-probability, in nats). Before the difference there must be none.",
    open(place) {
      show(place, html`<div class="tools"><label>Text <input id="text-a" size="30" value="${kTexts[0]}"></label>
        <label>changed <input id="text-b" size="30" value="${kTexts[1]}"></label></div><div id="leaks"></div>`);
      return [];
    },
    async ask({ models }) {
      const [a, b] = ["text-a", "text-b"].map((id) => $(id).value);
      const found = await Promise.all(models.filter((model) => model.ready).map((model) => askLeak(model, a, b)));
      show($("leaks"), each(found, drawLeak));
    },
  },
  samples: {
    name: "Samples",
    note: "Each model continues the text. A low temperature takes the likely characters, a high one dares more.",
    open(place) {
      show(place, html`<div class="tools"><label>Begin with <input id="prompt" size="24" value="The "></label>
        <label>Temperature <input id="temperature" type="range" min="0.1" max="1.5" step="0.1" value="0.8"
        oninput="this.nextElementSibling.value = this.value"> <output>0.8</output></label></div><dl id="samples"></dl>`);
      return [];
    },
    async ask({ models }) {
      const fields = { prompt: $("prompt").value, length: 160, seed: 1,
        temperature: +$("temperature").value };
      const texts = await Promise.all(models.map((model) => model.ask("sample", fields)));
      const list = $("samples");
      if (list) show(list, each(models, (model, i) => html`<dt>${swatch(i)} ${model.name}, step ${
        model.step}</dt><dd>${texts[i].text}</dd>`));
    },
  },
};

// ---- Attention maps ------------------------------------------------------------------------------------

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

function drawHeads({ tokens, heads }) {
  const place = $("heads");
  if (!place) return;
  if (place.children.length !== heads.length)
    show(place, each(heads, (_, h) =>
      html`<figure><canvas role="img"></canvas><figcaption>head ${h + 1}</figcaption></figure>`));
  const ink = rgb(colorOf(0)), size = tokens.length;
  heads.forEach((rows, h) => {
    const canvas = place.children[h].firstElementChild;
    canvas.width = canvas.height = size;
    const picture = new ImageData(size, size);
    rows.forEach((row, i) => row.forEach((p, j) => picture.data.set([...ink, 255 * Math.sqrt(p)], 4 * (i * size + j))));
    canvas.getContext("2d").putImageData(picture, 0, 0);
    const last = rows.at(-1), best = last.indexOf(Math.max(...last));
    canvas.setAttribute("aria-label",
      `Head ${h + 1}: the last character looks most at “${tokens[best]}”, place ${best + 1}`);
  });
}

// ---- Tokens through the blocks -------------------------------------------------------------------------

function drawTrace({ tokens, layers }, chosen) {
  const table = $("trace");
  if (!table) return;
  const at = Math.min(chosen, tokens.length - 1);
  const ink = rgb(colorOf(0)).join(",");
  const column = (t) => html`data-column="${t}" class="${t === at ? "at" : ""}"`;
  const cell = (layer) => (_, t) => html`<td ${column(t)} style="background:rgba(${ink},${
    (kCellAlpha * layer.probability[t]).toFixed(2)})">${visible(layer.next[t])}</td>`;
  const rows = layers.map((layer, l) =>
    html`<tr><th scope="row">${l ? `block ${l}` : "embedding"}</th>${each(tokens, cell(layer))}</tr>`);
  const head = tokens.map((token, t) => html`<th scope="col" ${column(t)}><button type="button" data-column="${t}"
    aria-pressed="${t === at}">${visible(token)}</button></th>`);
  const focused = document.activeElement?.dataset?.column;
  show(table, html`${rows.toReversed()}<tr><th scope="row">text</th>${head}</tr>`);
  if (focused !== undefined) table.querySelector(`button[data-column="${focused}"]`)?.focus();
  $("trace-rms").textContent = `RMS of the stream at “${tokens[at]}”, from the embedding to the last block: ${
    layers.map((layer) => short(layer.rms[at])).join(", ")}`;
}

// ---- Later tokens --------------------------------------------------------------------------------------

const largestChange = (a, b) => a.map((x, i) => Math.abs(x - b[i])).reduce((x, y) => Math.max(x, y), 0);

// The change at each position in training, and the largest one before the first difference.
async function askLeak(model, a, b) {
  const leak = { model, changes: [], at: 0 };
  for (const training of [true, false]) {
    const [one, other] = await Promise.all([a, b].map((text) => model.ask("logits", { text, training })));
    const length = Math.min(one.tokens.length, other.tokens.length);
    const differ = one.tokens.findIndex((token, t) => token !== other.tokens[t]);
    leak.at = differ < 0 ? length : differ;
    const changes = upTo(length).map((t) => largestChange(one.rows[t - 1], other.rows[t - 1]));
    leak[training ? "training" : "evaluation"] = Math.max(0, ...changes.slice(0, leak.at));
    if (training) Object.assign(leak, { changes, tokens: one.tokens });
  }
  model.leak = { training: leak.training, evaluation: leak.evaluation };
  return leak;
}

function drawLeak({ model, changes, at, tokens, training, evaluation }) {
  const top = Math.max(1e-9, ...changes);
  const height = (change) => (70 * Math.sqrt(change / top)).toFixed(1);
  const bars = changes.map((change, t) => html`<span class="${t < at ? "before" : ""}" title="${change.toFixed(4)}"><i
    style="height:${height(change)}px"></i>${visible(tokens[t])}</span>`);
  return html`<h3>${model.name}: before the difference at most ${short(training)} in training,
    ${short(evaluation)} in evaluation</h3>
    <div class="scroll"><div class="bars" aria-hidden="true">${bars}</div></div>`;
}
