// The worker against a bare loop with fetch: the same server, the same kinds of requests, in alternating rounds. Each of
// them has a process of its own for each load, so that none pays for what another has loaded or switched on. The loop is what a
// careful user would write: a time-out for each call, the status checked, the answer parsed.
// The loop and one worker go by the same fetch. A worker that goes by Node's HTTP client, as workers do unless told
// otherwise, is measured beside them, and need not meet the bound.
// Last, the worker against itself: messages with an effect and a follow-up each, guarded from end to end, against plain
// ones, in the same rounds, with 200 handlers at once, as in the benchmark of the Python SDK.
//   npm run build && DRIFTQ_BIN=… node bench/worker.mjs [messages] [rounds] [batch] [guarded: only that]
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Client } from "driftq";
import { TestServer } from "driftq/testing";

const messages = Number(process.argv[2] ?? 20_000);
const rounds = Number(process.argv[3] ?? 7);
const batch = Number(process.argv[4] ?? 100);
/** Messages whose effects the bare loop begins and finishes one by one; each takes two calls more. */
const guardedMessages = Math.ceil(messages / 10);
/** Of the worker to the bare loop. */
const RATIO_MIN = 0.8;
/** Handlers that run at once where guarded messages are measured against plain ones. */
const GUARDED_CONCURRENCY = 200;
/** Of guarded messages to plain ones. */
const GUARDED_RATIO_MIN = 0.4;

const server = await TestServer.start();
const client = new Client(server.url);
const program = fileURLToPath(new URL("contender.mjs", import.meta.url));
const names = ["bare", "worker-by-fetch", "worker"];
let topics = 0;

async function fill(count) {
  const topic = `bench-${topics++}`;
  await client.admin.createTopic(topic);
  const producer = client.producer();
  for (let n = 0; n < count; n += 1) await producer.send(topic, { order: `order-${n}` });
  await producer.close();
  return topic;
}

/** Messages per second of one round, by the clock and by the time of the processor, which a busy machine disturbs less. */
async function round(contender, count, load) {
  const topic = await fill(count);
  const receipts = `receipts-of-${topic}`;
  await client.admin.createTopic(receipts);
  contender.send({ topic, receipts, count, load });
  const [{ seconds, cpuSeconds }] = await once(contender, "message");
  for (const done of [topic, receipts]) await client.admin.deleteTopic(done);
  return { rate: count / seconds, cpuRate: count / cpuSeconds };
}

const median = (list) => [...list].sort((a, b) => a - b)[(list.length - 1) >> 1];
const shown = (ratios) => `${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(", ")})`;
/** Rounds before the first one that counts: the worker has more code to be compiled than the loop. */
const WARM_UP_ROUNDS = 3;
let enough = true;
let guardedEnough = true;
const only = process.argv[5];
for (const [name, count, load] of [
  ["lease and ack", messages, "plain"],
  ["with an effect each", guardedMessages, "effect"],
  ["with an effect each, by a guarded function", guardedMessages, "guarded"],
].filter(() => only !== "guarded")) {
  const contenders = Object.fromEntries(names.map((who) => [who, fork(program, [who, server.url, String(batch)])]));
  const results = Object.fromEntries(names.map((who) => [who, []]));
  for (let n = -WARM_UP_ROUNDS; n < rounds; n += 1) {
    for (const who of n % 2 === 0 ? names : names.toReversed()) {
      const one = await round(contenders[who], count, load);
      if (n >= 0) results[who].push(one);
    }
  }
  const rateOf = (who) => Math.round(median(results[who].map(({ rate }) => rate)));
  const ratiosOf = (who, rate) => results[who].map((one, n) => one[rate] / results.bare[n][rate]);
  enough &&= median(ratiosOf("worker-by-fetch", "rate")) >= RATIO_MIN;
  console.log(`${name}: bare loop ${rateOf("bare")}/s; ${count} messages a round, batches of ${batch}`);
  for (const who of ["worker-by-fetch", "worker"]) {
    console.log(`  ${who} ${rateOf(who)}/s, ratio ${shown(ratiosOf(who, "rate"))}`);
    console.log(`    by processor time ${shown(ratiosOf(who, "cpuRate"))}`);
  }
  for (const contender of Object.values(contenders)) contender.disconnect();
}
/** Plain and guarded rounds of one worker, in turns. */
for (const who of ["worker-by-fetch", "worker"]) {
  const contender = fork(program, [who, server.url, String(GUARDED_CONCURRENCY)]);
  const loads = ["plain", "guarded-with-follow-up"];
  const results = Object.fromEntries(loads.map((load) => [load, []]));
  for (let n = -WARM_UP_ROUNDS; n < rounds; n += 1) {
    for (const load of n % 2 === 0 ? loads : loads.toReversed()) {
      const one = await round(contender, messages, load);
      if (n >= 0) results[load].push(one);
    }
  }
  const [plain, guarded] = loads.map((load) => results[load]);
  const rateOf = (list) => Math.round(median(list.map(({ rate }) => rate)));
  const ratiosOf = (rate) => guarded.map((one, n) => one[rate] / plain[n][rate]);
  guardedEnough &&= median(ratiosOf("rate")) >= GUARDED_RATIO_MIN;
  console.log(`guarded, ${who}: plain ${rateOf(plain)}/s, with an effect and a follow-up each ${rateOf(guarded)}/s, ratio ${shown(ratiosOf("rate"))}`);
  console.log(`    by processor time ${shown(ratiosOf("cpuRate"))}`);
  contender.disconnect();
}
await server.stop();
if (!enough) console.error(`the worker's ratio is below ${RATIO_MIN}`);
if (!guardedEnough) console.error(`the ratio of guarded messages is below ${GUARDED_RATIO_MIN}`);
if (!enough || !guardedEnough) process.exitCode = 1;
