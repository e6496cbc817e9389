// BullMQ as its manual says: bullmq.cjs load QUEUE COUNT, or bullmq.cjs work QUEUE.
const { createRequire } = require("node:module");
const fs = require("node:fs");

const packages = createRequire(`${process.env.RACE_NODE}/`);
const { Queue, Worker } = packages("bullmq");
const Redis = packages("ioredis");

const address = { host: "127.0.0.1", port: Number(process.env.RACE_PORT), maxRetriesPerRequest: null };
const [task, name, count] = process.argv.slice(2);
const BATCH = 100;

async function load() {
  const queue = new Queue(name, { connection: address });
  for (let start = 0; start < count; start += BATCH) {
    const size = Math.min(BATCH, count - start);
    await queue.addBulk(Array.from({ length: size }, (_, at) => ({ name: "job", data: start + at })));
  }
  await queue.close();
}

function work() {
  const keeper = new Redis(address);
  const file = fs.openSync(process.env.RACE_EFFECTS, "a");
  const effect = (job) => fs.writeSync(file, `${job.data}\n`);
  const plain = async (job) => void effect(job);
  const guarded = async (job) => {
    if (await keeper.set(`guard:${job.data}`, "began", "NX")) effect(job);
    await keeper.set(`guard:${job.data}`, "done");
  };
  const handler = process.env.RACE_GUARDED === "1" ? guarded : plain;
  new Worker(name, handler, { connection: address, concurrency: 64 }).on("error", console.error);
}

(task === "load" ? load() : Promise.resolve(work())).catch((error) => {
  console.error(error);
  process.exit(1);
});
