// Tests of engine.wasm and worker.js, against the same engine as a native program (test.sh builds both).
//
//   node test_engine.mjs            all tests
//   node test_engine.mjs --speed    tokens per second of both, by turns

import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {direct, open} from './engine.mjs';

const root = new URL('../../', import.meta.url);
const nativeEngine = fileURLToPath(new URL('build/native_engine', root));
const native = (...words) =>
  execFileSync(nativeEngine, words.map(String), {encoding: 'utf8'}).trim().split('\n');
const words = (settings) => Object.entries(settings).map(([name, value]) => `${name}=${value}`);

// `bytes`: stories for a test, in a moment.
const small = {tokenizer: 'char', bytes: '200k', layers: 3, channels: 48, heads: 4, context: 48, batch: 4, warmup: 5};

const tests = {
  async 'the kernels have the bits of the native program'() {
    const {call, textAt} = direct();
    const ours = textAt(call('hashes')).trim().split('\n'), theirs = native('hashes');
    assert.equal(ours.length, theirs.length);
    const other = ours.filter((line, i) => line !== theirs[i]);
    const exact = other.filter((line) => line.slice(28).includes('exact'));
    console.log(`  ${ours.length - other.length} of ${ours.length} hashes are equal` +
      (other.length ? `; not: ${other.map((line) => line.slice(0, 28).trim()).join(', ')}` : ''));
    assert.deepEqual(exact, []);
  },

  async 'twenty losses are those of the native program'() {
    const runs = [
      {placement: 'pre'}, {placement: 'post'}, {placement: 'pre', norm: 'rmsnorm'},
      {placement: 'pre', optimizer: 'muon'}, {placement: 'pre', norm: 'batchnorm'}, {placement: 'deepnorm'},
      {placement: 'mhc', optimizer: 'lion', lr: 3e-4}, {placement: 'pre', preset: 'llama', sampling: 'shuffle'},
      {placement: 'sub-ln', position: 'alibi', dropout: 0.1, experts: 4, activation: 'swiglu'},
    ];
    const engine = await open();
    for (const run of runs) {
      const settings = {...run, ...small};
      const ready = await engine.start(settings);
      assert.equal(ready.type, 'ready', ready.message);
      const {rows} = await engine.steps(20);
      const theirs = native('losses', 20, ...words(settings)).map(Number);
      const difference = Math.max(...rows.map(({loss}, i) => Math.abs(loss - theirs[i])));
      console.log(`  ${words(run).join(' ')}: largest difference ${difference.toExponential(1)}`);
      assert.equal(rows.length, 20);
      assert.ok(difference <= 1e-6);
    }
    await engine.close();
  },

  async 'a run is that of the program'() {
    const program = path.join(path.dirname(fs.realpathSync(nativeEngine)), 'train_gpt');
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'playground-'));
    const stories = path.join(folder, 'stories.txt'), out = path.join(folder, 'run');
    const {bytes, ...settings} = {...small, placement: 'post', dropout: 0.1, steps: 20, 'eval-batches': 7};
    const options = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    options.push('--documents', 'file');  // the engine reads a pasted text as one document
    execFileSync(program, ['corpus', '--bytes', bytes, '--out', stories], {stdio: 'pipe'});
    execFileSync(program, ['train', '--data', stories, '--out', out, '--quiet', ...options], {stdio: 'pipe'});
    const csv = fs.readFileSync(path.join(out, 'metrics.csv'), 'utf8');
    const [head, ...lines] = csv.trim().split('\n').map((line) => line.split(','));
    const column = (name) => lines.map((line) => Number(line[head.indexOf(name)]));
    const text = fs.readFileSync(stories, 'utf8');
    fs.rmSync(folder, {recursive: true});
    const engine = await open();
    await engine.start(settings, {text, validateEvery: 20});
    const {rows} = await engine.steps(20);
    const far = (ours, theirs) => Math.max(...ours.map((x, i) => Math.abs(x / theirs[i] - 1)));
    assert.equal(lines.length, 20);
    assert.ok(far(rows.map(({loss}) => loss), column('train_loss')) < 1e-6);
    assert.ok(far(rows.map(({gradNorm}) => gradNorm), column('grad_norm')) < 1e-5);
    assert.ok(far(rows.map(({lr}) => lr), column('lr')) < 1e-6);
    assert.ok(far([(await engine.next('validation')).loss], [column('val_loss')[19]]) < 1e-6);
    await engine.close();
  },

  async 'memory does not grow in 2000 steps'() {
    const {start, call, memory} = direct();
    start({settings: {...small, layers: 1, channels: 16, context: 16, steps: 2100}});
    const result = call('allocate', 24);
    const steps = (count) => {
      for (let i = 0; i < count; ++i) {
        call('step', result, i % 10 === 0);
        if (i % 10 === 0) call('statistics');
        if (i % 100 === 0) call('validate');
      }
      return memory().byteLength;
    };
    const before = steps(100), after = steps(2000);
    console.log(`  ${(after / 1e6).toFixed(1)} MB`);
    assert.equal(after, before);
  },

  async 'the wasm leaves room for the page'() {
    const bytes = fs.statSync(new URL('build/playground/engine.wasm', root)).size;
    console.log(`  ${(bytes / 1e6).toFixed(2)} MB, ${(4 / 3 * bytes / 1e6).toFixed(2)} MB in base64`);
    assert.ok(4 / 3 * bytes < 2.5e6);
  },

  async 'the worker explains bad settings and goes on'() {
    const engine = await open();
    const message = async (settings) => {
      const answer = await engine.start({...small, ...settings});
      return answer.type === 'error' ? answer.message : answer.type;
    };
    assert.match(await message({heads: 5}), /^--heads 5 does not divide --channels 48/);
    assert.match(await message({placement: 'postt'}), /did you mean 'post'/);
    assert.match(await message({lr: 'x'}), /^--lr x is not a number/);
    assert.match(await message({nonsense: 1}), /^unknown option '--nonsense'/);
    assert.match(await message({channels: 8192, layers: 96}), /more elements than this machine can address/);
    assert.equal(await message({}), 'ready');
    engine.send({type: 'attention', text: 'Anna', layer: 7, id: 3});
    const {id, message: text} = await engine.next('error');
    assert.deepEqual([id, text], [3, 'there is no layer 7']);
    await engine.close();
  },

  async 'errors leave the stack as it was'() {
    const {start, call, withText} = direct();
    start({settings: small});
    for (let i = 0; i < 5000; ++i)
      assert.throws(() => withText('Anna', (text) => call('attention', text, 99)), {message: 'there is no layer 99'});
    call('step', call('allocate', 24), false);
  },

  async 'a run that diverges says so, and the worker starts another'() {
    const engine = await open();
    await engine.start({...small, optimizer: 'sgd', lr: 1e6, clip: 0, warmup: 0});
    const end = await engine.steps(50);
    assert.equal(end.type, 'diverged');
    assert.match(end.message, /not finite|NaN|infinit|diverged/i);
    console.log(`  step ${end.step}: ${end.message}`);
    await engine.start(small);
    assert.equal((await engine.steps(3)).rows.length, 3);
    await engine.close();
  },

  async 'a run pauses, goes on, validates and ends'() {
    const engine = await open();
    await engine.start({...small, steps: 30, lr: 3e-3}, {statisticsEvery: 10, validateEvery: 15});
    engine.send({type: 'run'});
    engine.send({type: 'pause'});
    engine.send({type: 'run'});
    assert.equal((await engine.next('finished')).step, 30);
    const steps = [], losses = [];
    for (const at of [1, 10, 20, 30]) {
      const {step, rows} = await engine.next('statistics');
      steps.push(step);
      assert.equal(step, at);
      assert.ok(rows.some(([layer, part, what, x]) => layer === 2 && part === 'stream' && what === 'rms' && x > 0));
      assert.ok(rows.some(([, part, what]) => part === 'attention.q.weight' && what === 'update_ratio'));
    }
    for (let i = 0; i < 2; ++i) losses.push((await engine.next('validation')).loss);
    assert.ok(losses[1] < losses[0]);
    await engine.close();
  },

  async 'attention, trace, logits and samples'() {
    const engine = await open();
    const {layers} = await engine.start({...small, placement: 'pre', norm: 'batchnorm'});
    assert.deepEqual(layers[0].parts.map(({part}) => part),
      ['attention.norm_in', 'attention', 'attention.o', 'attention.sum', 'ffn.norm_in', 'ffn', 'ffn.down', 'ffn.sum']);
    await engine.steps(20);
    const text = 'Anna lost a hat.';
    const {heads, tokens} = await engine.ask({type: 'attention', text, layer: 1});
    assert.equal(tokens.join(''), text);
    assert.equal(heads.length, 4);
    for (const [i, row] of heads[2].entries()) {
      assert.ok(Math.abs(row.reduce((a, b) => a + b) - 1) < 1e-5);
      assert.ok(row.slice(i + 1).every((p) => p === 0));
    }
    const last = async (training, text) => (await engine.ask({type: 'logits', text, training})).rows[3];
    const trace = await engine.ask({type: 'trace', text});
    assert.equal(trace.layers.length, 4);
    const {rows, alphabet} = await engine.ask({type: 'logits', text});
    const best = rows[5].indexOf(Math.max(...rows[5]));
    assert.equal(trace.layers[3].next[5], alphabet[best]);
    assert.ok(Math.abs(trace.layers[3].probability[5] - Math.exp(rows[5][best])) < 1e-5);
    // In training, BatchNorm's mean and variance are of all tokens: those before a change see it.
    assert.deepEqual(await last(false, 'Anna lost'), await last(false, 'Anna logs'));
    assert.notDeepEqual(await last(true, 'Anna lost'), await last(true, 'Anna logs'));
    const samples = [];
    for (const seed of [1, 1, 2])
      samples.push((await engine.ask({type: 'sample', prompt: 'Anna', length: 40, temperature: 1, seed})).text);
    assert.equal(samples[0].length, 40);
    assert.equal(samples[0], samples[1]);
    assert.notEqual(samples[0], samples[2]);
    await engine.start({...small, norm: 'layernorm'});
    assert.deepEqual(await last(true, 'Anna lost'), await last(true, 'Anna logs'));
    await engine.close();
  },

  async 'pasted text is trained on'() {
    const engine = await open();
    engine.send({type: 'start', settings: {...small, context: 16}, text: 'äpfel und birnen. '.repeat(40)});
    const ready = await engine.next('ready', 'error');
    assert.equal(ready.type, 'ready', ready.message);
    assert.equal(ready.vocabulary, 13);
    assert.equal(ready.floor, null);
    assert.equal((await engine.steps(2)).rows.length, 2);
    engine.send({type: 'start', settings: small, text: 'short'});
    assert.match((await engine.next('error')).message, /too little text/);
    await engine.close();
  },
};

// ---- speed -----------------------------------------------------------------------------------------------

function speed(settings, seconds) {
  const {start, call} = direct();
  start({settings: {...settings, steps: 1e6}});
  const result = call('allocate', 24);
  for (let i = 0; i < 3; ++i) call('step', result, false);
  let steps = 0;
  const begin = performance.now();
  while (performance.now() < begin + 1000 * seconds) call('step', result, false), ++steps;
  return steps * call('tokens_per_step') / (performance.now() - begin) * 1000;
}

function compareSpeed() {
  const models = {
    '2 x 64, context 64': {layers: 2, channels: 64, heads: 4, context: 64, batch: 8},
    '4 x 128, context 128': {layers: 4, channels: 128, heads: 4, context: 128, batch: 8},
  };
  for (const [name, model] of Object.entries(models)) {
    const settings = {...small, ...model};
    const ours = [], theirs = [];
    for (const first of ['wasm', 'native', 'native', 'wasm'])
      if (first === 'wasm') ours.push(speed(settings, 3));
      else theirs.push(Number(native('speed', 3, 'steps=1000000', ...words(settings))[0]));
    const [a, b] = [Math.max(...ours), Math.max(...theirs)];
    console.log(`${name}: ${Math.round(a)} tokens/s, native ${Math.round(b)}: ${Math.round(100 * a / b)} %`);
  }
}

// ---- run -------------------------------------------------------------------------------------------------

if (process.argv.includes('--speed')) {
  compareSpeed();
  process.exit(0);
}
const wanted = process.argv.slice(2);
let passed = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (wanted.length && !wanted.some((part) => name.includes(part))) continue;
  console.log(name);
  try {
    await test();
    ++passed;
  } catch (error) {
    ++failed;
    console.error(`  FAILED: ${error.stack}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
