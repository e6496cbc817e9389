import { DriftQError } from "../errors.js";
import { GroupUnknown } from "../refusals.js";
import type { EffectRecord } from "../terms.js";
import { monotonicMs, sleep } from "../time.js";
import type { Worker } from "../worker.js";
import type { TestServer } from "./server.js";

/** How often the server is asked whether the group is done: only the server knows what is still to come. */
const LOOK_MS = 15;
const IDLE_TIMEOUT_MS = 30_000;

export interface IdleOptions {
  timeoutMs?: number;
}

/** Runs the worker until its group is done with all of its topics, and stops it. */
export async function runUntilIdle(worker: Worker, options: IdleOptions = {}): Promise<void> {
  const until = monotonicMs() + (options.timeoutMs ?? IDLE_TIMEOUT_MS);
  const run = worker.run({ signals: false });
  let ended = false;
  const end = run.finally(() => (ended = true));
  end.catch(() => undefined);
  try {
    while (!ended && (await lag(worker)) > 0) {
      if (monotonicMs() > until) throw new DriftQError(`the group ${worker.group} was not done in time`);
      await sleep(LOOK_MS);
    }
  } finally {
    await worker.stop();
  }
  await run;
}

async function lag(worker: Worker): Promise<number> {
  const lags = worker.topics.map(async (topic) => {
    try {
      return (await worker.client.admin.group(topic, worker.group)).lag;
    } catch (error) {
      // A group begins with its first reader.
      if (error instanceof GroupUnknown) return 1;
      throw error;
    }
  });
  return (await Promise.all(lags)).reduce((sum, one) => sum + one, 0);
}

export interface EffectsExpected {
  scope: string;
  /** How many effects the scope must have. */
  count: number;
  tenantId?: string;
}

/** Checks the ledger: the scope has `count` effects, and each of them succeeded. Returns them. */
export async function assertEffects(server: TestServer, expected: EffectsExpected): Promise<EffectRecord[]> {
  const { scope, count, tenantId } = expected;
  const effects: EffectRecord[] = [];
  const filter = tenantId === undefined ? { scope } : { scope, tenantId };
  for await (const effect of server.client().admin.effects(filter)) effects.push(effect);
  const open = effects.filter((effect) => effect.state !== "succeeded");
  if (open.length > 0) {
    const states = open.map((effect) => `${effect.key} is ${effect.state}`).join(", ");
    throw new DriftQError(`${open.length} effect(s) of ${scope} did not succeed: ${states}`);
  }
  if (effects.length !== count) {
    throw new DriftQError(`${effects.length} effect(s) of ${scope} instead of ${count}: ${effects.map((effect) => effect.key).join(", ")}`);
  }
  return effects;
}
