// ---- The model as a drawing: a row for each block, a box for each part ---------------------------------

const kVanished = 1e-2, kExploded = 1e2;  // of what it was at step 1

// The norm of a part's gradient: of its tensors together; a sum has the stream's.
function partGradient(statistics, layer, part) {
  const own = (name) => (part.kind === "sublayer" ? new RegExp(`^${part.part}\\.(q|k|v|qkv|up|gate)\\.`).test(name)
    : part.kind === "sum" ? part.branch === "ffn" && name === "stream" : name.startsWith(`${part.part}.`));
  const squares = statistics.rows.filter((row) => row[0] === layer && row[2] === "grad_norm" && own(row[1]))
    .map((row) => row[3] ** 2);
  return squares.length ? Math.sqrt(squares.reduce((a, b) => a + b, 0)) : null;
}

function judge(model, statistics, layer, part) {
  const now = partGradient(statistics, layer, part), start = partGradient(model.first, layer, part);
  if (now === null || !start) return { state: "", note: "" };
  const ratio = now / start;
  const state = ratio < kVanished ? "vanished" : ratio > kExploded || !Number.isFinite(ratio) ? "exploded" : "";
  return { state, note: `gradient ${now.toExponential(1)}, at step 1 ${start.toExponential(1)}` };
}

const kMarks = { vanished: "▽", exploded: "△" };

function partBox(model, statistics, layer, part) {
  const { state, note } = judge(model, statistics, layer, part);
  const skip = part.kind === "sum" && part.skip !== 1
    ? `${+part.skip.toPrecision(3)}·${part.text === "+" ? "x +" : part.text}` : part.text;
  return html`<span class="part ${part.kind} ${state}" title="${part.part}: ${note || "no tensor of its own"}">${skip}${
    state ? html`<i>${kMarks[state]}</i>` : ""}</span>`;
}

function drawModel(place, model, statistics = model.statistics) {
  if (!model.ready || !statistics) {
    show(place, html`<p class="note">The drawing appears with the first step.</p>`);
    return;
  }
  const layers = model.ready.layers.map((layer, l) => html`<li><b>${l + 1}</b>${
    layer.parts.map((part) => partBox(model, statistics, l, part))}</li>`);
  show(place, html`<ol class="tower" aria-label="Blocks of ${model.name}, the last one on top">${
    layers.toReversed()}</ol>`);
}
