// Calls of @connectrpc/connect-node, for test_stream_clients.py: every method,
// errors and deadlines, over HTTP/2 and HTTP/1.1. Prints "ok" for each way.
//
//   node clients.mjs HOST:PORT FILE     FILE: worker.proto as protoc sees it
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createConnectTransport, createGrpcTransport,
	createGrpcWebTransport } from "@connectrpc/connect-node";

const [address, file] = process.argv.slice(2);
const registry = createFileRegistry(
	fromBinary(FileDescriptorSetSchema, readFileSync(file)));
const service = registry.getService("corvo.v1.WorkerService");

async function refused(code, call) {
	const e = await call.then((m) => assert.fail(`taken: ${m}`), (x) => x);
	assert(e instanceof ConnectError, e);
	assert.equal(e.code, code, e.message);
	return e;
}

async function useUnary(c, queue) {
	assert((await c.getServerInfo({})).serverVersion);
	const made = await c.enqueue({ queue, payloadJson: '{"n": 1}' });
	const job = await c.fetch({ queues: [queue], workerId: "node" });
	assert.equal(job.jobId, made.jobId);
	assert.equal(job.payloadJson, '{"n": 1}');
	const beat = await c.heartbeat({ jobs: { [job.jobId]: {} } });
	assert.equal(beat.jobs[job.jobId].status, "ok");
	const failed = await c.fail({ jobId: job.jobId, requeue: true,
		leaseToken: job.leaseToken });
	assert.equal(failed.status, "pending");
	const { jobs } = await c.fetchBatch({ queues: [queue], count: 5 });
	assert.deepEqual(jobs.map((j) => j.jobId), [made.jobId]);
	const items = [{ jobId: made.jobId, leaseToken: jobs[0].leaseToken }];
	assert.equal((await c.ackBatch({ items })).acked, 1);
	const other = await c.enqueue({ queue });
	await c.fetch({ queues: [queue] });
	await c.ack({ jobId: other.jobId });
}

// The answer comes before the client stops waiting, where it would be 30 s.
async function useDeadlines(c, queue) {
	const none = await c.fetch({ queues: [queue] }, { timeoutMs: 5000 });
	assert.equal(none.found, false);
	await refused(Code.DeadlineExceeded,
		first(c.subscribe({ queues: [queue] }, { timeoutMs: 500 })));
}

async function useErrors(c) {
	const e = await refused(Code.InvalidArgument, c.enqueue({}));
	assert.equal(e.rawMessage, "queue is required");
	assert(e.details.length > 0);
	await refused(Code.NotFound, c.ack({ jobId: "none" }));
}

async function first(stream) {
	for await (const m of stream)
		return m;
	return undefined;
}

async function useSubscribe(c, queue) {
	const stop = new AbortController();
	const event = await first(c.subscribe({ queues: [queue],
		lastEventId: 1n }, { signal: stop.signal }));
	assert.equal(event.queue, queue);
	stop.abort(); // it would go on for ever
}

// Frames that are sent when the answer to the one before has come.
async function useStream(c, queue) {
	const todo = [];
	let wake;
	const send = (frame) => { todo.push(frame); wake?.(); };
	async function* frames() {
		for (;;) {
			while (todo.length > 0) {
				const frame = todo.shift();
				if (frame === null)
					return;
				yield frame;
			}
			await new Promise((go) => { wake = go; });
		}
	}
	const answers = c.streamLifecycle(frames())[Symbol.asyncIterator]();
	const ask = async (frame) => {
		send(frame);
		return (await answers.next()).value;
	};
	let a = await ask({ requestId: 1n, enqueues: [{ queue }, { queue }] });
	assert.equal(a.enqueuedJobIds.length, 2);
	a = await ask({ requestId: 2n, queues: [queue], fetchCount: 5,
		waitMs: 20000n });
	assert.equal(a.requestId, 2n);
	assert.equal(a.jobs.length, 2);
	const acks = a.jobs.map((j) => ({ jobId: j.jobId,
		leaseToken: j.leaseToken }));
	a = await ask({ requestId: 3n, acks });
	assert.equal(a.acked, 2);
	a = await ask({ requestId: 4n, enqueues: [{}] });
	assert.equal(a.error, "enqueue: queue is required");
	send(null);
	assert.equal((await answers.next()).done, true);
}

async function use(name, transport, hasStreams) {
	const c = createClient(service, transport);
	await useUnary(c, name);
	await useErrors(c);
	await useDeadlines(c, `${name}-none`);
	await useSubscribe(c, name);
	if (hasStreams)
		await useStream(c, `${name}-stream`);
	console.log("ok");
}

const baseUrl = `http://${address}`;
for (const httpVersion of ["2", "1.1"]) {
	const common = { baseUrl, httpVersion };
	const duplex = httpVersion === "2";
	await use(`connect-${httpVersion}`, createConnectTransport(common), duplex);
	await use(`json-${httpVersion}`, createConnectTransport(
		{ ...common, useBinaryFormat: false }), duplex);
	await use(`gzip-${httpVersion}`, createConnectTransport(
		{ ...common, sendCompression: compressionGzip,
			compressMinBytes: 0 }), duplex);
	await use(`web-${httpVersion}`, createGrpcWebTransport(common), duplex);
}
await use("grpc", createGrpcTransport({ baseUrl, httpVersion: "2" }), true);
process.exit(0); // connections stay open for later calls
