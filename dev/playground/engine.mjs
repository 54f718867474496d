// worker.js in node: a worker that takes its messages, and the engine of it without a thread.

import fs from 'node:fs';
import vm from 'node:vm';
import {Worker} from 'node:worker_threads';
import {fileURLToPath} from 'node:url';

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const source = fs.readFileSync(path('worker.js'), 'utf8');
const wasm = () => new Uint8Array(fs.readFileSync(path('../../build/playground/engine.wasm'))).buffer;

// A worker and its messages: send(message), and next(type), the next message of a type, which fails on `error`.
export function open() {
  const begin = `const {parentPort} = require('node:worker_threads');
    globalThis.self = {postMessage: (message) => parentPort.postMessage(message)};
    parentPort.on('message', (data) => self.onmessage({data}));\n`;
  const worker = new Worker(begin + source, {eval: true});
  const waiting = [], seen = [];
  const settle = () => {
    for (const [i, {types, resolve}] of waiting.entries()) {
      const found = seen.findIndex((message) => types.includes(message.type));
      if (found < 0) continue;
      waiting.splice(i, 1);
      return resolve(seen.splice(found, 1)[0]);
    }
  };
  worker.on('message', (message) => { seen.push(message); settle(); });
  worker.on('error', (error) => { throw error; });
  const engine = {
    send(message) { worker.postMessage(message); },
    next(...types) { return new Promise((resolve) => { waiting.push({types, resolve}); settle(); }); },
    async ask(message) { engine.send(message); return engine.next(message.type, 'error'); },
    async start(settings, more = {}) {
      engine.send({type: 'start', settings, text: null, ...more});
      return engine.next('ready', 'error');
    },
    // All rows of so many steps.
    async steps(count) {
      engine.send({type: 'step', count});
      const rows = [];
      while (rows.length < count) {
        const message = await engine.next('steps', 'diverged', 'error');
        if (message.type !== 'steps') return {rows, ...message};
        rows.push(...message.rows);
      }
      return {rows};
    },
    close() { return worker.terminate(); },
  };
  engine.send({type: 'load', wasm: wasm()});
  return engine.next('loaded').then(({options}) => Object.assign(engine, {options}));
}

// The functions of worker.js in this thread: call(name, ...), ask(name, ...), withText(text, use).
export function direct() {
  const context = vm.createContext({
    self: {postMessage() {}}, WebAssembly, TextEncoder, TextDecoder, MessageChannel, performance});
  const parts = 'self.parts = {call, ask, withText, textAt, start, memory: () => engine.memory.buffer};';
  vm.runInContext(`${source}\n${parts}`, context);
  context.self.onmessage({data: {type: 'load', wasm: wasm()}});
  return context.self.parts;
}
