// ---- Models: each is a worker with an engine of its own ------------------------------------------------

const decoded = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const engineBytes = new Response(new Blob([decoded(kEngine)]).stream().pipeThrough(new DecompressionStream("gzip")))
  .arrayBuffer();
const workerAddress = URL.createObjectURL(new Blob([kWorker], { type: "text/javascript" }));

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const kMostRows = 16384;
const kMostStatistics = 128;

class Model {
  constructor(name, settings, changed) {
    Object.assign(this, { name, settings, changed, state: "loading", ready: null, step: 0, stride: 1, speed: 0,
      message: "" });
    this.rows = { step: [], loss: [], gradNorm: [], lr: [] };
    this.validation = [];
    this.statistics = null;   // the newest
    this.first = null;        // those of the first step
    this.history = [];        // of up to kMostStatistics steps
    this.leak = null;         // what a later token changes, see inside.js
    this.questions = new Map();
    this.count = 0;
    this.worker = new Worker(workerAddress);
    this.worker.onmessage = ({ data }) => { this.take(data); this.changed(this, data.type); };
    this.worker.onerror = (event) => this.fail(event.message);
  }

  async start(text, every) {
    this.worker.postMessage({ type: "load", wasm: await engineBytes });
    this.worker.postMessage({ type: "start", settings: this.settings, text, statisticsEvery: every, validateEvery: 0 });
  }

  take(data) {
    const question = this.questions.get(data.id);
    if (question) {
      this.questions.delete(data.id);
      if (data.type === "error") question.reject(new Error(data.message));
      else question.resolve(data);
    } else if (data.type === "ready") {
      Object.assign(this, { ready: data, state: "ready" });
    } else if (data.type === "steps") {
      this.speed = data.tokensPerSecond;
      this.keep(data.rows);
    } else if (data.type === "statistics") {
      this.statistics = { step: data.step, rows: data.rows };
      this.first ??= this.statistics;
      this.remember(this.statistics);
    } else if (data.type === "validation") {
      this.validation.push(data);
    } else if (data.type === "finished" || data.type === "diverged") {
      Object.assign(this, { state: data.type, message: data.message ?? "" });
    } else if (data.type === "error") {
      this.fail(data.message);
    }
  }

  // A long run keeps every second, fourth, ... step, so that memory stays bounded.
  keep(rows) {
    this.step = rows.at(-1).step;
    for (const row of rows.filter(({ step }) => step % this.stride === 0))
      for (const key in this.rows) this.rows[key].push(row[key]);
    if (this.rows.step.length <= kMostRows) return;
    this.stride *= 2;
    const kept = this.rows.step.map((step) => step % this.stride === 0);
    for (const key in this.rows) this.rows[key] = this.rows[key].filter((_, i) => kept[i]);
  }

  // A long history keeps every second step.
  remember(statistics) {
    this.history.push(statistics);
    if (this.history.length > kMostStatistics) this.history = this.history.filter((_, i) => i % 2 === 0);
  }

  // The newest statistics that are not after a step.
  statisticsAt(step) { return this.history.findLast((statistics) => statistics.step <= step) ?? this.first; }

  fail(message) {
    Object.assign(this, { state: "failed", message });
    this.changed(this, "error");
  }

  get over() { return ["finished", "diverged", "failed"].includes(this.state); }

  send(type, fields = {}) { this.worker.postMessage({ type, ...fields }); }

  run() {
    if (this.over) return;
    this.state = "running";
    this.send("run");
  }

  pause() {
    if (this.state === "running") this.state = "paused";
    this.send("pause");
  }

  // The answer to a question, or an error.
  ask(type, fields) {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      this.questions.set(id, { resolve, reject });
      this.send(type, { ...fields, id });
    });
  }

  end() { this.worker.terminate(); }

  // The mean loss of some steps before a step, by default of the newest ones.
  loss(steps = 20, before = this.rows.loss.length) {
    return before > 0 ? mean(this.rows.loss.slice(Math.max(0, before - steps), before)) : NaN;
  }

  // Values of a statistic from the first block to the last.
  byLayer(part, what, statistics = this.statistics) {
    const rows = (statistics?.rows ?? []).filter((row) => row[0] !== null && row[1] === part && row[2] === what);
    return rows.sort((a, b) => a[0] - b[0]).map((row) => row[3]);
  }
}

// The options of the engine, for the form.
async function engineOptions() {
  const worker = new Worker(workerAddress);
  const answer = new Promise((resolve) => { worker.onmessage = ({ data }) => resolve(data.options); });
  worker.postMessage({ type: "load", wasm: await engineBytes });
  const options = await answer;
  worker.terminate();
  return options;
}
