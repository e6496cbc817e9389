// One side of the benchmark: node bench/contender.mjs bare|worker-by-fetch|worker URL BATCH; rounds come from the parent.
import { Client, guarded } from "driftq";

const [name, url, batch] = [process.argv[2], process.argv[3], Number(process.argv[4])];

const ANSWER_TIMEOUT_MS = 30_000;

async function post(path, body, waitMs = 0) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS + waitMs),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

async function bareEffect({ order }, message) {
  const begin = { scope: message.topic, key: order, lease_token: message.lease.token, reacquire: true, owner: "bare" };
  const begun = await post("/v2/effects/begin", begin);
  const headers = { "content-type": "application/json" };
  await post("/v2/effects/finish", { token: begun.lease.token, status: "succeeded", code: 200, headers, body: JSON.stringify(order) });
}

/** Borrows a batch, handles it, acks it; and so on. Every call has its time-out; no heartbeats, no renewals, no repeats. */
async function bareLoop({ topic, count, load }) {
  for (let done = 0; done < count; ) {
    const leased = await post(`/v2/topics/${topic}/groups/bench/lease`, { owner: "bare", max: batch, lease_ms: 30_000, wait_ms: 1_000 }, 1_000);
    await Promise.all(leased.messages.map((message) => (load !== "plain" ? bareEffect(JSON.parse(message.value), message) : JSON.parse(message.value))));
    await post("/v2/leases/ack", { leases: leased.messages.map(({ lease }) => ({ token: lease.token })) });
    done += leased.messages.length;
  }
}

/** The SDK's worker, with as many handlers at once as the bare loop has. */
async function worker({ topic, receipts, count, load }) {
  const client = new Client(name === "worker-by-fetch" ? { url, fetch } : url);
  const one = client.worker("bench", { concurrency: batch });
  let done = 0;
  const charge = load.startsWith("guarded") ? guarded(topic, { key: (order) => order }, (order) => order) : undefined;
  one.handle(topic, async ({ order }, ctx) => {
    if (load === "effect") await ctx.effect(topic, { key: order }, () => order);
    if (charge) await charge(order);
    if (load === "guarded-with-follow-up") ctx.send(receipts, { order });
    done += 1;
    if (done === count) void one.stop();
  });
  // Ends when the last message is acked.
  await one.run({ signals: false });
}

process.on("message", async (round) => {
  const began = performance.now();
  const before = process.cpuUsage();
  await (name === "bare" ? bareLoop : worker)(round);
  const { user, system } = process.cpuUsage(before);
  process.send({ seconds: (performance.now() - began) / 1_000, cpuSeconds: (user + system) / 1_000_000 });
});
