// What an hour of live updates leaves behind in the browser: the events of a real server, told faster.
//
//     DRIFTQ_BIN=../target/debug/driftq npm run memory

import { browser, furnish, goTo, open, Server } from "./bench.mjs";

/** An hour at one event in a second, in three parts; the argument is another number of events in each. */
const EVENTS = Number(process.argv[2] ?? 1_200);
const PARTS = 3;
const ALLOWED_MIB = 2;
const TOPICS = 500;

const server = await Server.start();
const chromium = await browser();
try {
  await furnish(server);
  for (let number = 0; number < TOPICS; number += 1) await server.call("PUT", `/v2/topics/topic-${number}`, {});
  const page = await open(chromium, server, { script: tap });
  await page.getByText("Busiest topics").waitFor();
  const inspector = await page.context().newCDPSession(page);
  const mebibytes = async () => {
    await inspector.send("HeapProfiler.collectGarbage");
    return (await inspector.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
  };
  // Each event differs in its numbers and in some of its rows, as they do all day.
  const first = await firstEvent();
  const tell = async (part) => {
    const events = Array.from({ length: EVENTS }, (_, second) => {
      const turn = part * EVENTS + second;
      const topics = Array.from({ length: 5 }, (_, place) => ({ ...first.topics[(turn + place) % first.topics.length], messages: turn }));
      const at = new Date(Date.parse(first.sample.at) + turn * 1000).toISOString();
      return { sample: { ...first.sample, at, produced: first.sample.produced + turn * 7 }, topics, left_out: 0 };
    });
    await page.evaluate(async (told) => {
      for (const event of told) {
        window.tapped.onmessage({ data: JSON.stringify(event) });
        // As between two events of a stream: the page draws.
        await new Promise((drawn) => setTimeout(drawn, 0));
      }
    }, events);
  };
  const used = [await mebibytes()];
  for (let part = 0; part < PARTS; part += 1) {
    await goTo(page, part % 2 === 0 ? "#/" : "#/topics");
    await tell(part);
    await goTo(page, "#/");
    used.push(await mebibytes());
  }
  console.log(`MiB in use, at first and after each part: ${used.map((each) => each.toFixed(1)).join(", ")}`);
  const grown = used.at(-1) - used[1];
  console.log(`grown since the first part: ${grown.toFixed(2)} MiB, allowed are ${ALLOWED_MIB}`);
  if (page.wrong.length > 0) throw new Error(page.wrong.join("\n"));
  if (grown > ALLOWED_MIB) process.exitCode = 1;
} finally {
  await chromium.close();
  await server.stop();
}

/** Lets this script say what the stream of the page says. */
function tap() {
  window.EventSource = class extends EventSource {
    constructor(...where) {
      super(...where);
      window.tapped = this;
    }
  };
}

async function firstEvent() {
  const stream = new AbortController();
  const answer = await fetch(`${server.url}/v2/events`, { signal: stream.signal });
  let text = "";
  for await (const chunk of answer.body) {
    text += Buffer.from(chunk).toString();
    if (text.includes("\n\n")) break;
  }
  stream.abort();
  return JSON.parse(/^data: (.*)$/m.exec(text)[1]);
}
