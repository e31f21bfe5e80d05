// pg-boss on PostgreSQL. Its own workers look for jobs twice a second at most;
// here its fetch and complete are called as fast as there are jobs, and every
// 10 ms while there are none.
"use strict";

const PgBoss = require("pg-boss");
const { main } = require("../harness/harness.js");

const EMPTY_MS = 10;
const pause = (ms) => new Promise((go) => setTimeout(go, ms));

main(async (address) => {
  const boss = new PgBoss({
    connectionString: address, max: 140, supervise: false, schedule: false });
  boss.on("error", (e) => { throw e; });
  await boss.start();
  const made = new Map();
  const queueOf = (name) => {
    if (!made.has(name)) made.set(name, boss.createQueue(name));
    return made.get(name);
  };
  const work = async (name, batchSize, done) => {
    for (;;) {
      const jobs = await boss.fetch(name, { batchSize });
      if (jobs.length > 0) {
        done(jobs.length);
        await boss.complete(name, jobs.map((job) => job.id));
      } else {
        await pause(EMPTY_MS);
      }
    }
  };
  return {
    producer: async (name) => {
      await queueOf(name);
      return (jobs) => (jobs.length === 1
        ? boss.send(name, jobs[0])
        : boss.insert(jobs.map((data) => ({ name, data }))));
    },
    work: async (name, workers, batch, done) => {
      await queueOf(name);
      for (let i = 0; i < workers; i++) {
        work(name, batch, done).catch((e) => {
          console.error(e);
          process.exit(1);
        });
      }
    },
  };
});
