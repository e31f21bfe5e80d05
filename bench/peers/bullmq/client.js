// BullMQ on Redis. Batches go in by addBulk; workers take jobs one by one, as
// many at a time as their concurrency says.
"use strict";

const { Queue, Worker } = require("bullmq");
const { main } = require("../harness/harness.js");

const CONCURRENCY = 64;

main(async (address) => {
  const [host, port] = address.split(":");
  const connection = { host, port: Number(port) };
  const queues = new Map();
  const queueOf = (name) => {
    if (!queues.has(name)) queues.set(name, new Queue(name, { connection }));
    return queues.get(name);
  };
  return {
    producer: async (name) => async (jobs) => {
      if (jobs.length === 1) await queueOf(name).add("bench", jobs[0]);
      else {
        await queueOf(name).addBulk(
          jobs.map((data) => ({ name: "bench", data })));
      }
    },
    work: async (name, workers, batch, done) => {
      const worker = new Worker(name, async () => done(1), {
        connection,
        concurrency: workers === 1 ? 1 : CONCURRENCY,
        removeOnComplete: { count: 0 },
      });
      worker.on("error", (e) => { throw e; });
      await worker.waitUntilReady();
    },
  };
});
