// The same as harness.go, for clients in JavaScript: a peer has
//   producer(queue)                      -> async put(jobs), jobs are objects
//   work(queue, workers, batch, done)    -> async; done(n) is told how many
"use strict";

const { parseArgs } = require("node:util");
const { performance } = require("node:perf_hooks");

const ENQUEUERS = 128;
const PRODUCERS = 64;
const WORKERS = 64;
const BATCH = 100;
const BATCH_SIDE = 4; // producers and workers
const BACKLOG = 1000;
const BATCH_BACKLOG = 5000;
const WARM_UP_MS = 1000; // not counted: connections, caches, JIT
const WAKE_GAP_MS = 2;
const WAKE_PATIENCE_MS = 10000;

const pause = (ms) => new Promise((go) => setTimeout(go, ms));

// Holds producers back while too many jobs are not done.
class Gate {
  constructor(most) {
    this.most = most;
    this.ahead = 0;
    this.waiting = [];
    this.closed = false;
  }

  async enter(n) {
    while (this.ahead >= this.most && !this.closed) {
      await new Promise((go) => this.waiting.push(go));
    }
    this.ahead += n;
    return !this.closed;
  }

  leave(n) {
    this.ahead -= n;
    for (const go of this.waiting.splice(0)) go();
  }

  close() {
    this.closed = true;
    this.leave(0);
  }
}

// Counts what is done after the warm-up.
class Count {
  constructor() {
    this.done = 0;
    this.on = false;
  }

  add(n) {
    if (this.on) this.done += n;
  }
}

async function produce(o, puts, n, gate, count, put) {
  const ms = WARM_UP_MS + o.seconds * 1000;
  const end = performance.now() + ms;
  setTimeout(() => { count.on = true; }, WARM_UP_MS);
  setTimeout(() => {
    count.on = false;
    gate?.close();
  }, ms);
  const jobs = Array.from({ length: n }, () => o.job);
  await Promise.all(puts.map(async (one) => {
    while (performance.now() < end && (!gate || await gate.enter(n))) {
      await one(jobs);
      put(n);
    }
  }));
}

async function producers(peer, o, n) {
  const made = [];
  for (let i = 0; i < n; i++) made.push(await peer.producer(o.queue));
  return made;
}

const rate = (name, count, o) =>
  console.log(`${name} ${(count.done / o.seconds).toFixed(0)}`);

async function enqueue(peer, o) {
  const count = new Count();
  const all = await producers(peer, o, ENQUEUERS);
  await produce(o, all, 1, null, count, (n) => count.add(n));
  rate("enqueue_per_s", count, o);
}

async function lives(peer, o, name, sides, batch, backlog) {
  const count = new Count();
  const gate = new Gate(backlog);
  const all = await producers(peer, o, sides[0]);
  await peer.work(o.queue, sides[1], batch, (n) => {
    count.add(n);
    gate.leave(n);
  });
  await produce(o, all, batch, gate, count, () => {});
  rate(name, count, o);
}

async function wake(peer, o) {
  const took = [];
  let arrive;
  const put = await peer.producer(o.queue);
  await peer.work(o.queue, 1, 1, () => arrive(performance.now()));
  const end = performance.now() + 4000 * o.seconds;
  for (let i = 0; i < o.count && performance.now() < end; i++) {
    await pause(WAKE_GAP_MS);
    const arrived = new Promise((go, fail) => {
      const timer = setTimeout(
        () => fail(new Error("a job did not reach its worker")),
        WAKE_PATIENCE_MS);
      arrive = (at) => {
        clearTimeout(timer);
        go(at);
      };
    });
    const start = performance.now();
    const sent = put([o.job]);
    const at = await arrived;
    await sent;
    // the first one finds a worker that starts
    if (i > 0) took.push((at - start) * 1000);
  }
  took.sort((a, b) => a - b);
  console.log(`wake_count ${took.length}`);
  if (took.length === 0) return;
  console.log(`wake_p50_us ${took[took.length >> 1].toFixed(1)}`);
  console.log(`wake_p90_us ${
    took[Math.floor(took.length * 0.9)].toFixed(1)}`);
}

async function run(open) {
  const { values } = parseArgs({ options: {
    address: { type: "string" },
    mode: { type: "string" },
    seconds: { type: "string", default: "3" },
    payload: { type: "string", default: "100" },
    count: { type: "string", default: "500" },
    queue: { type: "string", default: "bench" },
  } });
  const o = {
    queue: values.queue,
    seconds: Number(values.seconds),
    count: Number(values.count),
    job: { text: "a".repeat(Number(values.payload) - 11) },
  };
  const peer = await open(values.address);
  const modes = {
    enqueue: () => enqueue(peer, o),
    lifecycle: () => lives(peer, o, "lifecycles_per_s",
      [PRODUCERS, WORKERS], 1, BACKLOG),
    batch: () => lives(peer, o, "batch_lifecycles_per_s",
      [BATCH_SIDE, BATCH_SIDE], BATCH, BATCH_BACKLOG),
    wake: () => wake(peer, o),
  };
  if (!modes[values.mode]) throw new Error(`no such mode: ${values.mode}`);
  await modes[values.mode]();
}

exports.main = (open) => run(open).then(
  () => process.exit(0), // workers are still there
  (e) => {
    console.error(e);
    process.exit(1);
  });
