// The worker against a bare loop with fetch: the same server, the same kinds of requests, in alternating rounds. Each of
// the two has a process of its own, so that neither pays for what the other has loaded or switched on.
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
const contenders = Object.fromEntries(["bare", "worker"].map((name) => [name, fork(program, [name, server.url, String(batch)])]));
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
async function round(name, count, effects) {
  const topic = await fill(count);
  contenders[name].send({ topic, count, effects });
  const [{ seconds, cpuSeconds }] = await once(contenders[name], "message");
  await client.admin.deleteTopic(topic);
  return { rate: count / seconds, cpuRate: count / cpuSeconds };
}

const median = (list) => [...list].sort((a, b) => a - b)[(list.length - 1) >> 1];
const shown = (list) => list.map((ratio) => ratio.toFixed(2)).join(", ");
let enough = true;
for (const [name, count, effects] of [
  ["lease and ack", messages, false],
  ["with an effect each", guardedMessages, true],
]) {
  const results = { bare: [], worker: [] };
  for (let n = -1; n < rounds; n += 1) {
    for (const who of n % 2 === 0 ? ["bare", "worker"] : ["worker", "bare"]) {
      const one = await round(who, count, effects);
      // The first round warms both up.
      if (n >= 0) results[who].push(one);
    }
  }
  const ratios = results.worker.map(({ rate }, n) => rate / results.bare[n].rate);
  const cpuRatios = results.worker.map(({ cpuRate }, n) => cpuRate / results.bare[n].cpuRate);
  const rateOf = (who) => Math.round(median(results[who].map(({ rate }) => rate)));
  enough &&= median(ratios) >= RATIO_MIN;
  console.log(`${name}: bare loop ${rateOf("bare")}/s, worker ${rateOf("worker")}/s; ${count} messages a round, batches of ${batch}`);
  console.log(`  ratio ${median(ratios).toFixed(2)} (${shown(ratios)})`);
  console.log(`  by processor time ${median(cpuRatios).toFixed(2)} (${shown(cpuRatios)})`);
}
for (const contender of Object.values(contenders)) contender.disconnect();
await server.stop();
if (!enough) {
  console.error(`a ratio is below ${RATIO_MIN}`);
  process.exitCode = 1;
}
