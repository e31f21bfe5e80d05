// Graphile Worker on PostgreSQL. Batches go in by its function add_jobs; its
// workers take jobs one by one and are notified of new ones.
"use strict";

const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");
const { main } = require("../harness/harness.js");

const CONCURRENCY = 64;
const ADD_JOBS = "select count(*) from graphile_worker.add_jobs(array("
  + "select json_populate_recordset("
  + "null::graphile_worker.job_spec, $1::json)))";

main(async (address) => {
  const logger = new Logger(() => (level, text) => {
    if (level === "error") console.error(text);
  });
  const pgPool = new Pool({ connectionString: address, max: 140 });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  return {
    producer: async (name) => (jobs) => (jobs.length === 1
      ? utils.addJob(name, jobs[0])
      : pgPool.query(ADD_JOBS, [JSON.stringify(
        jobs.map((payload) => ({ identifier: name, payload })))])),
    work: (name, workers, batch, done) => run({
      pgPool,
      logger,
      noHandleSignals: true,
      concurrency: workers === 1 ? 1 : CONCURRENCY,
      taskList: { [name]: async () => done(1) },
    }),
  };
});
