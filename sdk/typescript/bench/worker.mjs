// The worker against a bare loop with fetch: the same server, the same kinds of requests, in alternating rounds. Each of
// them has a process of its own for each load, so that none pays for what another has loaded or switched on. The loop is what a
// careful user would write: a time-out for each call, the status checked, the answer parsed.
// The loop and the worker go by the same fetch. A worker that goes by Node's HTTP client is measured beside them, and need
// not meet the bound.
//   npm run build && DRIFTQ_BIN=… node bench/worker.mjs [messages] [rounds] [batch]
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Client } from "driftq";
import { TestServer } from "driftq/testing";

const messages = Number(process.argv[2] ?? 20_000);
const rounds = Number(process.argv[3] ?? 7);
const batch = Number(process.argv[4] ?? 100);
/** Messages whose effects are begun and finished one by one; each takes two calls more. */
const guardedMessages = Math.ceil(messages / 10);
const RATIO_MIN = 0.8;

const server = await TestServer.start();
const client = new Client(server.url);
const program = fileURLToPath(new URL("contender.mjs", import.meta.url));
const names = ["bare", "worker", "worker-by-node-http"];
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
  contender.send({ topic, count, load });
  const [{ seconds, cpuSeconds }] = await once(contender, "message");
  await client.admin.deleteTopic(topic);
  return { rate: count / seconds, cpuRate: count / cpuSeconds };
}

const median = (list) => [...list].sort((a, b) => a - b)[(list.length - 1) >> 1];
const shown = (ratios) => `${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(", ")})`;
/** Rounds before the first one that counts: the worker has more code to be compiled than the loop. */
const WARM_UP_ROUNDS = 3;
let enough = true;
for (const [name, count, load] of [
  ["lease and ack", messages, "plain"],
  ["with an effect each", guardedMessages, "effect"],
  ["with an effect each, by a guarded function", guardedMessages, "guarded"],
]) {
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
  enough &&= median(ratiosOf("worker", "rate")) >= RATIO_MIN;
  console.log(`${name}: bare loop ${rateOf("bare")}/s; ${count} messages a round, batches of ${batch}`);
  for (const who of ["worker", "worker-by-node-http"]) {
    console.log(`  ${who} ${rateOf(who)}/s, ratio ${shown(ratiosOf(who, "rate"))}`);
    console.log(`    by processor time ${shown(ratiosOf(who, "cpuRate"))}`);
  }
  for (const contender of Object.values(contenders)) contender.disconnect();
}
await server.stop();
if (!enough) {
  console.error(`the worker's ratio is below ${RATIO_MIN}`);
  process.exitCode = 1;
}
