// The worker of one model. It owns an instance of engine.wasm, and the page talks to it in messages.
//
// page → worker                                    worker → page
//   load {wasm: ArrayBuffer}                         loaded {options}
//   start {settings, text, statisticsEvery,          ready {parameters, floor, unigram, vocabulary, layers, ...}
//          validateEvery}
//   run, pause, step {count}                         steps {rows, tokensPerSecond}, validation {step, loss},
//                                                    statistics {step, rows}, diverged {step, message},
//                                                    finished {step}
//   statistics {every}
//   attention {text, layer}                          attention {tokens, layer, heads}
//   trace {text}                                     trace {tokens, layers}
//   logits {text, training}                          logits {tokens, training, alphabet, rows}
//   sample {prompt, length, temperature, seed}       sample {text}
//                                                    error {message}
//
// An answer has the `id` of its question, if that has one.
'use strict';

let module_ = null;   // compiled once
let engine = null;    // the exports of the instance
let failure = null;   // what the engine threw: {message, step}
const run = {going: false, left: 0, steps: 0, tokens: 0, statisticsEvery: 0, validateEvery: 0, over: true};

const post = (type, fields) => self.postMessage({type, ...fields});

// ---- the engine ------------------------------------------------------------------------------------------

const bytes = () => new Uint8Array(engine.memory.buffer);

function textAt(pointer) {
  const memory = bytes();
  return new TextDecoder().decode(memory.subarray(pointer, memory.indexOf(0, pointer)));
}

// Calls use(pointer) with a copy of the text in the engine's memory.
function withText(text, use) {
  const encoded = new TextEncoder().encode(text);
  const pointer = engine.engine_allocate(encoded.length + 1);
  bytes().set(encoded, pointer);
  bytes()[pointer + encoded.length] = 0;
  try {
    return use(pointer);
  } finally {
    engine.engine_free(pointer);
  }
}

class EngineError extends Error {}

// WebAssembly's system interface, as far as the libraries ask for it: nothing is read, and messages go nowhere.
const system = {
  fd_write(fd, vectors, count, written) {
    const view = new DataView(engine.memory.buffer);
    let total = 0;
    for (let i = 0; i < count; ++i) total += view.getUint32(vectors + 8 * i + 4, true);
    view.setUint32(written, total, true);
    return 0;
  },
  clock_time_get(clock, precision, result) {
    const now = BigInt(Math.round(performance.now() * 1e6));
    new DataView(engine.memory.buffer).setBigUint64(result, now, true);
    return 0;
  },
  proc_exit(code) { throw new EngineError(`the engine ended with code ${code}`); },
};
const unsupported = () => 52;  // ENOSYS

function instantiate() {
  const wasi = new Proxy(system, {get: (target, name) => target[name] ?? unsupported});
  const page = {
    fail(message, step) {
      const error = new EngineError(textAt(message));
      error.step = step;
      throw error;
    },
  };
  const imports = {};
  for (const {module, name} of WebAssembly.Module.imports(module_))
    (imports[module] ??= {})[name] = module === 'page' ? page[name] : wasi[name];
  engine = new WebAssembly.Instance(module_, imports).exports;
  engine._initialize();
}

// Calls an exported function. What the engine throws unwinds no stack of its own, so its stack pointer is set back.
function call(name, ...values) {
  const top = engine.__stack_pointer.value;
  try {
    return engine[`engine_${name}`](...values);
  } catch (error) {
    engine.__stack_pointer.value = top;
    if (error instanceof EngineError) throw error;
    throw new EngineError(error instanceof RangeError || error instanceof WebAssembly.RuntimeError
      ? `the engine stopped (${error.message}): choose a smaller model` : error.message);
  }
}
const ask = (name, ...values) => JSON.parse(textAt(call(name, ...values)));

// ---- training --------------------------------------------------------------------------------------------

const kReportMs = 100;

function start({settings = {}, text = null, statisticsEvery = 0, validateEvery = 0}) {
  instantiate();  // a new memory: nothing of the last model stays
  Object.assign(run, {going: false, left: 0, statisticsEvery, validateEvery, over: true});
  const rank = (name) => ['size', 'preset'].indexOf(name);  // these two set the sizes that others override
  const names = Object.keys(settings).sort((a, b) => rank(b) - rank(a));
  for (const name of names) {
    const value = settings[name];
    if (value === null || value === undefined || value === '') continue;
    withText(name, (n) => withText(String(value), (v) => call('set', n, v)));
  }
  const ready = text === null ? ask('start', 0) : withText(text, (t) => ask('start', t));
  run.steps = ready.settings.steps;
  run.tokens = call('tokens_per_step');
  run.over = false;
  post('ready', ready);
}

const stepsDone = () => Number(call('steps_done'));
const due = (every, step) => every > 0 && (step % every === 0 || step === 1 || step === run.steps);

// Takes steps for a tenth of a second, then lets messages in.
function takeSteps() {
  if (!run.going || run.over) return;
  const began = performance.now();
  const rows = [];
  const results = call('allocate', 24);
  let step = stepsDone(), trained = 0;
  let diverged = null;
  while (run.left > 0 && step < run.steps && performance.now() - began < kReportMs) {
    const observed = due(run.statisticsEvery, step + 1);
    const before = performance.now();
    try {
      call('step', results, observed);
    } catch (error) {
      if (!(error.step >= 0)) throw error;
      diverged = error;
      break;
    }
    trained += performance.now() - before;
    ++step;
    --run.left;
    const [loss, gradNorm, lr] = new Float64Array(engine.memory.buffer, results, 3);
    rows.push({step, loss, gradNorm, lr});
    if (observed) post('statistics', {step, rows: ask('statistics')});
    if (run.validateEvery > 0 && (step % run.validateEvery === 0 || step === run.steps))
      post('validation', {step, loss: call('validate')});
  }
  call('free', results);
  if (rows.length > 0) post('steps', {rows, tokensPerSecond: 1000 * rows.length * run.tokens / trained});
  if (diverged) {
    Object.assign(run, {going: false, over: true});
    post('diverged', {step: diverged.step, message: diverged.message});
  } else if (step >= run.steps) {
    Object.assign(run, {going: false, over: true});
    post('finished', {step});
  } else if (run.left === 0) {
    run.going = false;
  } else {
    later(takeSteps);
  }
}

// A timer of 0 ms waits for 4 ms after a few turns; a message to oneself does not wait.
const channel = new MessageChannel();
let next = null;
channel.port1.onmessage = () => { const task = next; next = null; task?.(); };
function later(task) { next = task; channel.port2.postMessage(0); }

function go(count) {
  run.left = count;
  if (run.going || run.over) return;
  run.going = true;
  later(takeSteps);
}

// ---- messages --------------------------------------------------------------------------------------------

const handlers = {
  load({wasm}) {
    module_ = new WebAssembly.Module(wasm);
    instantiate();
    post('loaded', {options: ask('options')});
  },
  start,
  run() { go(Infinity); },
  pause() { run.going = false; },
  step({count = 1}) { go(count); },
  statistics({every}) { run.statisticsEvery = every; },
  attention({text, layer = 0, id}) { withText(text, (t) => post('attention', {id, ...ask('attention', t, layer)})); },
  trace({text, id}) { withText(text, (t) => post('trace', {id, ...ask('trace', t)})); },
  logits({text, training = false, id}) { withText(text, (t) => post('logits', {id, ...ask('logits', t, training)})); },
  sample({prompt = '', length = 200, temperature = 0.8, seed = 1, id}) {
    withText(prompt, (p) => post('sample', {id, text: ask('sample', p, length, temperature, seed)}));
  },
};

self.onmessage = ({data}) => {
  try {
    const handler = handlers[data.type];
    if (!handler) throw new EngineError(`unknown message '${data.type}'`);
    handler(data);
  } catch (error) {
    post('error', {id: data.id, message: error.message});
  }
};
