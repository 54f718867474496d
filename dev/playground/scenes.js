// ---- The eight scenes of the tour ------------------------------------------------------------------------
//
// A scene is data: models, the view to open, what to look at, and the claim as checks of numbers. A check is
// {text, held}; the page shows its text with the measured numbers. Settings have the names of the program's options.
// Losses are means of 20 steps, in nats per character.

// All scenes: stories told by the program, 32 channels, Adam without weight decay and clipping.
const kShared = { tokenizer: "char", bytes: "1M", context: 32, batch: 8, channels: 32, heads: 2, clip: 0,
  "weight-decay": 0, seed: 3 };
// The same Xavier initialization for all placements, as in Xiong et al. 2020.
const kXavier = { init: "xavier", "residual-gain": false };

const fixed = (value) => (Number.isFinite(value) ? value.toFixed(2) : "no number");
const kRaised = { "-": "⁻", ...Object.fromEntries([..."⁰¹²³⁴⁵⁶⁷⁸⁹"].map((raised, digit) => [digit, raised])) };
function power(value) {
  if (!(value > 0)) return "0";
  if (value >= 0.01 && value < 1000) return String(+value.toPrecision(2));
  const [digits, exponent] = value.toExponential(1).split("e");
  return `${digits} × 10${[...exponent.replace("+", "")].map((digit) => kRaised[digit]).join("")}`;
}
const kStuck = 0.05;  // nats around the unigram entropy

function stuck(model) {
  const gap = model.loss() - model.ready.unigram;
  return { text: `${model.name} is stuck: its loss ${fixed(model.loss())} is the unigram entropy ${
    fixed(model.ready.unigram)}, so it knows how often each character occurs and no more.`,
  held: Math.abs(gap) < kStuck };
}

const learns = (model, margin = 0.3) => ({ held: model.loss() < model.ready.unigram - margin,
  text: `${model.name} learns: its loss ${fixed(model.loss())} is below the unigram entropy ${
    fixed(model.ready.unigram)}.` });

// The gradient of the stream in the first block, divided by the one in the last block.
function gradientRatio(model, statistics) {
  const norms = model.byLayer("stream", "grad_norm", statistics);
  return norms[0] / norms.at(-1);
}

function vanishes(model) {
  const before = gradientRatio(model, model.first), now = gradientRatio(model);
  return { held: before > 0.1 && now < 0.01,
    text: `At step 1 the first block’s gradient was ${fixed(before)} of the last block’s. Now it is ${power(now)}: ` +
      "the gradient vanished in training, not at the start." };
}

// The sizes of what the norms of all blocks but the first read, multiplied: the skip path's gradient is divided by it.
const kSums = ["attention.norm_sum", "ffn.norm_sum"];
const divided = (model) => kSums.flatMap((norm) => model.byLayer(norm, "rms_before").slice(1))
  .reduce((a, b) => a * b, 1);

function divides(stuckModel, other) {
  const [big, small] = [stuckModel, other].map(divided);
  const whole = (value) => Math.round(value).toLocaleString("en");
  return { held: big > 20 * small, text: "Each norm divides the gradient by the size of its input. Between the last " +
    `block’s output and the first’s these sizes multiply to ${whole(big)} in ${stuckModel.name}, and to ` +
    `${whole(small)} in ${other.name}.` };
}

const lower = (a, b, margin) => ({ held: a.loss() < b.loss() - margin,
  text: `${a.name} ends at ${fixed(a.loss())}, ${b.name} at ${fixed(b.loss())}.` });

const kScenes = [
  {
    id: "warm-up", title: "Warm-up saves Post-LN", view: "gradients", inside: 0,
    what: "A transformer carries a row of numbers x for each token, the stream. Each block adds two branches F to " +
      "it: attention and a feed-forward layer. A norm brings the numbers of a row to size 1. Post-LN puts it after " +
      "each sum, y = norm(x + F(x)). Pre-LN puts it before each branch, y = x + F(norm(x)). These three models of 6 " +
      "blocks differ in the placement and in the first 100 steps: a warm-up raises the learning rate slowly from 0.",
    look: "Look at the gradient by block, below. At step 1 (thin lines) it is about the same in all blocks. Post-LN " +
      "without a warm-up takes full steps at once, and soon almost no gradient reaches its first blocks. With a " +
      "warm-up this does not happen. The slider shows at which step it vanishes.",
    why: "The gradient at step 1 is healthy, so it is not the problem. The first steps are. The optimizer, " +
      "Adam, moves every weight by about the learning rate, however small its gradient is. Full steps in all blocks " +
      "at once make the branches large, and then every norm on the stream divides the gradient by about 2. Ten norms " +
      "in a row leave almost nothing for the first block. A warm-up takes small steps at first, and the sizes stay " +
      "smaller. In Pre-LN the way from x to y past the branch, the skip path, has no norm, so nothing divides the " +
      "gradient there.",
    common: { ...kShared, ...kXavier, layers: 6, steps: 400, lr: 0.003, beta2: 0.999 },
    models: [
      { name: "Post-LN, no warm-up", settings: { placement: "post", warmup: 0 } },
      { name: "Post-LN, warm-up", settings: { placement: "post", warmup: 100 } },
      { name: "Pre-LN, no warm-up", settings: { placement: "pre", warmup: 0 } },
    ],
    claim: ([post, warm, pre]) => [stuck(post), vanishes(post), divides(post, warm), learns(warm), learns(pre)],
  },
  {
    id: "deep", title: "24 layers without it", view: "gradients", inside: 0,
    what: "The same without a warm-up and with 24 blocks, that is 48 branches one after another. DeepNorm is Post-LN " +
      "with a stronger skip path, y = norm(αx + F(x)), and smaller initial weights.",
    look: "Look at the curves after 50 steps, then at the gradient by block on its logarithmic axis.",
    why: "Each norm divides the gradient a little, and 48 of them multiply. Pre-LN and DeepNorm keep the skip path " +
      "open, each in its own way, and at this rate they learn without a warm-up.",
    common: { ...kShared, layers: 24, steps: 250, lr: 0.002, warmup: 0 },
    models: [
      { name: "Post-LN", settings: { ...kXavier, placement: "post" } },
      { name: "Pre-LN", settings: { ...kXavier, placement: "pre" } },
      { name: "DeepNorm", settings: { placement: "deepnorm" } },
    ],
    claim: ([post, pre, deep]) => [stuck(post), vanishes(post), learns(pre), learns(deep)],
  },
  {
    id: "deepnorm", title: "DeepNorm’s α", view: "updates", inside: 0,
    what: "DeepNorm has two constants for L blocks: the skip factor α = (2L)^¼ and the gain β = (8L)^−¼ of the " +
      "initial weights. At 24 blocks α is 2.63 and β is 0.27. Here are both, each alone, and neither (which is " +
      "Post-LN).",
    look: "Look at how long each curve stays at the unigram entropy. Below, compare how far a step moves the weights " +
      "of each.",
    why: "Both constants make a step change the output less: β by smaller branches, α by a larger share of the skip " +
      "path. In these runs each alone helps, and together they help most, as the derivation says.",
    common: { ...kShared, layers: 24, steps: 300, lr: 0.002, warmup: 30, placement: "deepnorm", seed: 1 },
    models: [
      { name: "α and β", settings: {} },
      { name: "β alone", settings: { "skip-scale": 1 } },
      { name: "α alone", settings: { "init-gain": 1 } },
      { name: "neither", settings: { "skip-scale": 1, "init-gain": 1 } },
    ],
    claim: ([both, beta, alpha, neither]) =>
      [learns(both), lower(both, beta, 0.05), lower(both, alpha, 0.3), stuck(neither)],
  },
  {
    id: "inverted", title: "The inverted gain", view: "updates", inside: 1,
    what: "Two public repositories that compare norms have DeepNorm’s gain as (8L) to the power +¼ instead of −¼. " +
      "At 24 blocks that is 3.72 instead of 0.27: weights 14 times too large.",
    look: "Look below at the size of the branch relative to the skip path. DeepNorm wants it small, so that no step " +
      "changes the output much.",
    why: "One sign in an exponent turns a method for deep models into one that does not learn. This shows that the " +
      "mistake is enough to ruin DeepNorm in this run. It does not show that a published number came from that code.",
    common: { ...kShared, layers: 24, steps: 200, lr: 0.002, warmup: 20, placement: "deepnorm", seed: 1 },
    models: [
      { name: "right gain, 0.27", settings: {} },
      { name: "inverted gain, 3.72", settings: { "init-gain": 3.7224 } },
    ],
    claim: ([right, wrong]) => [learns(right), stuck(wrong), {
      held: branchSize(wrong) > 50 * branchSize(right),
      text: `At step 1 the FFN branch has ${power(branchSize(wrong))} of the skip path’s size with the inverted ` +
        `gain, and ${power(branchSize(right))} with the right one.` }],
  },
  {
    id: "none", title: "No norm at all", view: "stream", inside: 1,
    what: "Twelve blocks without a single norm, y = x + F(x), at two learning rates. Beside them is Pre-LN at the " +
      "same two.",
    look: "Look at the size of the stream by block. Without norms and at the higher rate it grows until it is no " +
      "longer a number.",
    why: "A transformer without norms can train. In these runs, with 20 steps of warm-up, it needs a smaller " +
      "learning rate, because nothing stops the stream from growing when the weights grow. With a norm the larger " +
      "rate works, and Pre-LN also learns more at the smaller one.",
    common: { ...kShared, layers: 12, steps: 250, warmup: 20, seed: 1 },
    models: [
      { name: "no norm, rate 0.01", settings: { placement: "none", lr: 0.01 } },
      { name: "no norm, rate 0.02", settings: { placement: "none", lr: 0.02 } },
      { name: "Pre-LN, rate 0.01", settings: { placement: "pre", lr: 0.01 } },
      { name: "Pre-LN, rate 0.02", settings: { placement: "pre", lr: 0.02 } },
    ],
    claim: ([slow, fast, pre, preFast]) => [learns(slow), {
      held: fast.state === "diverged", text: `${fast.name} ${fast.state === "diverged"
        ? `diverged at step ${fast.step + 1}: its loss or its gradient is no longer a finite number`
        : "did not diverge"}.` },
    lower(pre, slow, 0.1), learns(preFast, 0.2), {
      held: streamSize(slow) > 10 * streamSize(slow, slow.first),
      text: `The stream after the last block had size ${power(streamSize(slow, slow.first))} at step 1 in ${
        slow.name}, and ${power(streamSize(slow))} at the end.` }],
  },
  {
    id: "batchnorm", title: "BatchNorm sees the future", view: "later", inside: 0,
    what: "BatchNorm takes its mean over all tokens of the batch, so each position sees the later ones. LayerNorm " +
      "takes it over the channels of one token.",
    look: "Below are two texts that differ in one late character. The bars show how much each prediction before that " +
      "character changes. A language model must show none.",
    why: "In training every position learns from a mean that contains its own answer. In evaluation BatchNorm uses " +
      "running averages, and nothing leaks, but then the model is not the one that was trained. This is one reason " +
      "why transformers use LayerNorm. The loss hardly shows the leak, because a batch has 256 tokens: one later " +
      "character is a 256th of each mean. With 8 tokens BatchNorm reads the answer. Set batch to 1, context to 8 and " +
      "steps to 2000 in “Your own race”: over five seeds its loss in the last 200 steps is 0.42 to 0.55 lower than " +
      "LayerNorm’s, and here it is 0.01 to 0.11 lower.",
    common: { ...kShared, layers: 2, steps: 200, lr: 0.003, warmup: 20, placement: "pre" },
    models: [
      { name: "BatchNorm", settings: { norm: "batchnorm" } },
      { name: "LayerNorm", settings: { norm: "layernorm" } },
    ],
    claim: ([batch, layer]) => [{
      held: batch.leak?.training > 0.01, text: `BatchNorm: earlier log-probabilities change by up to ${
        fixed(batch.leak?.training)} nats in training.` },
    { held: batch.leak?.evaluation === 0, text: `BatchNorm in evaluation: they change by ${batch.leak?.evaluation}.` },
    { held: layer.leak?.training === 0, text: `LayerNorm: they change by ${layer.leak?.training}.` },
    learns(batch), learns(layer), {
      held: Math.abs(batch.loss() - layer.loss()) < 0.2,
      text: `The losses, ${fixed(batch.loss())} and ${fixed(layer.loss())}, hardly show the leak.` }],
  },
  {
    id: "dyt", title: "DyT’s death", view: "stream", inside: 0,
    what: "DyT replaces the norm by tanh(αx), which needs no mean and no variance. tanh limits large numbers as a " +
      "norm does, but it does not divide by the size of the row.",
    look: "Look at the size of the stream and at its gradient. The first steps push the stream in one direction, " +
      "tanh goes flat, and the gradient disappears.",
    why: "The stream of a small model starts near 0.03. The first steps learn how often each letter occurs and move " +
      "all rows the same way. A norm would remove that; tanh saturates. A stream that starts at size 1, with α at 1, " +
      "avoids this. Its authors let the stream start large too.",
    common: { ...kShared, layers: 4, context: 64, steps: 300, lr: 0.003, warmup: 40, placement: "pre", seed: 1 },
    models: [
      { name: "DyT in LayerNorm’s place", settings: { norm: "dyt" } },
      { name: "DyT, stream starts at 1", settings: { norm: "dyt", "embedding-scale": 50, "dyt-alpha": 1 } },
      { name: "LayerNorm", settings: { norm: "layernorm" } },
    ],
    claim: ([dyt, wide, layer]) => [stuck(dyt), {
      held: faded(dyt) < 1e-3,
      text: `The gradient of the first block’s output is ${power(faded(dyt))} of what it was at step 1.` },
    learns(wide), learns(layer)],
  },
  {
    id: "rmsnorm", title: "RMSNorm is LayerNorm without the mean", view: "norms", inside: 0,
    what: "LayerNorm subtracts the mean of a row and divides by its standard deviation. RMSNorm only divides by its " +
      "root mean square, and it has no bias.",
    look: "Look for a difference between the curves. Then compare the sizes after the norms below.",
    why: "Removing the mean adds nothing that you can see in these 300 steps. RMSNorm itself takes less time than " +
      "LayerNorm, but a norm is a small part of a step: in models this small no difference could be measured.",
    common: { ...kShared, layers: 4, context: 64, steps: 300, lr: 0.003, warmup: 30, placement: "pre", seed: 1 },
    models: [
      { name: "LayerNorm", settings: { norm: "layernorm" } },
      { name: "RMSNorm", settings: { norm: "rmsnorm" } },
    ],
    claim: ([layer, rms]) => [learns(layer), learns(rms), {
      held: Math.abs(layer.loss() - rms.loss()) < 0.1,
      text: `The losses are ${fixed(layer.loss())} and ${fixed(rms.loss())}: ${
        fixed(Math.abs(layer.loss() - rms.loss()))} apart.` },
    { held: rms.ready.parameters < layer.ready.parameters,
      text: `RMSNorm has no biases: ${rms.ready.parameters.toLocaleString("en")} parameters against ${
        layer.ready.parameters.toLocaleString("en")}.` }],
  },
];

const streamSize = (model, statistics) => model.byLayer("stream", "rms", statistics).at(-1);
const branchSize = (model) => mean(model.byLayer("ffn", "branch_ratio", model.first));
const faded = (model) => model.byLayer("stream", "grad_norm")[0] / model.byLayer("stream", "grad_norm", model.first)[0];
