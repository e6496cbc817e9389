import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as driftq from "../../src/index.js";
import { found, type Client, type Context, type EffectOptions, type Finding } from "../../src/index.js";
import { toCamel } from "../../src/wire.js";

// Runs the files of tests/scenarios; their words are explained in the README there.

export const FOLDER = fileURLToPath(new URL("../../../../tests/scenarios/", import.meta.url));

export type Action = Record<string, any>;

export interface Scenario {
  name: string;
  topics: Record<string, object>;
  produce: { topic: string; message: object }[];
  worker: { topic: string; group: string; lease_ms: number; heartbeat?: boolean; concurrency?: number; timeout_ms?: number; required?: string[] };
  handler: Record<string, Action[]>;
  expect: { attempts: number[]; executions: Record<string, number>; server: { get: string; has: unknown; status?: number }[] };
}

export function scenarios(): Scenario[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json") && file !== "digests.json");
  return files.map((file) => JSON.parse(readFileSync(FOLDER + file, "utf8")) as Scenario);
}

/** What a run of a scenario has seen. */
export class Play {
  readonly attempts: number[] = [];
  readonly executions: Record<string, number> = {};
  /** What a handler found to be other than the scenario says. */
  readonly complaints: string[] = [];
  #calls = 0;

  constructor(
    private readonly scenario: Scenario,
    private readonly client: Client,
  ) {}

  handler = async (_payload: unknown, context: Context): Promise<void> => {
    this.attempts.push(context.attempt);
    for (const action of this.#actions(context.attempt)) await this.#act(action, context);
  };

  /** A snooze does not count as an attempt, so that its list is meant for the first call only. */
  #actions(attempt: number): Action[] {
    this.#calls += 1;
    const list = this.scenario.handler[String(attempt)];
    const again = this.#calls > 1 && attempt === 1 && list?.some((action) => "snooze" in action);
    return (again ? undefined : list) ?? this.scenario.handler["*"] ?? [];
  }

  async #act(action: Action, context: Context): Promise<void> {
    const [[kind, value]] = Object.entries(action) as [[string, any]];
    switch (kind) {
      case "effect":
        return this.#effect(value, context);
      case "retry":
        throw new driftq.Retry(value.reason, { afterMs: value.after_ms });
      case "dead":
        throw new driftq.Dead(value);
      case "snooze":
        throw new driftq.Snooze({ forMs: value.for_ms });
      case "raise":
        throw new Error(value);
      case "send":
        return context.send(value.topic, value.payload, { stepId: value.step_id });
      case "output":
        return context.output(toCamel(value));
      case "commit":
        return this.#commit(value, context);
      case "outlive":
        return new Promise((resolve) => setTimeout(resolve, value.leases * this.scenario.worker.lease_ms));
      case "cancel_message":
        return this.client.admin.cancelMessage(context.topic, context.partition, context.offset);
      case "await_signal":
        return this.#awaitSignal(value.reason, context);
      default:
        throw new Error(`this runner does not know the action ${kind}`);
    }
  }

  async #commit(value: { raises?: string }, context: Context): Promise<void> {
    try {
      await context.commit();
      if (value.raises) this.complaints.push(`commit did not raise ${value.raises}`);
    } catch (error) {
      this.#expectError("commit", error, value.raises);
      throw error;
    }
  }

  async #effect(value: Action, context: Context): Promise<void> {
    const options: EffectOptions = { key: value.key, args: value.args, onLapse: value.on_lapse, maxAttempts: value.max_attempts, waitMs: value.wait_ms };
    if (value.reconcile !== undefined) options.reconcile = () => findingOf(value.reconcile);
    try {
      const result = await context.effect(value.scope, options, () => {
        this.executions[value.scope] = (this.executions[value.scope] ?? 0) + 1;
        return outcomeOf(value);
      });
      if (value.raises) this.complaints.push(`${value.scope} did not raise ${value.raises}`);
      else if (JSON.stringify(result) !== JSON.stringify(value.value)) this.complaints.push(`${value.scope} gave ${JSON.stringify(result)}`);
    } catch (error) {
      this.#expectError(value.scope, error, value.raises);
      throw error;
    }
  }

  #expectError(what: string, error: unknown, name: string | undefined): void {
    const type = name === undefined ? undefined : name === "Error" ? Error : ((driftq as Record<string, unknown>)[name] as typeof Error);
    if (!type || !(error instanceof type)) this.complaints.push(`${what} raised ${error}, not ${name}`);
  }

  #awaitSignal(reason: string, { signal }: Context): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("the signal did not fire")), 30_000);
      const fired = () => {
        clearTimeout(late);
        if ((signal.reason as Error).name !== reason) this.complaints.push(`the signal fired with ${signal.reason}, not ${reason}`);
        resolve();
      };
      if (signal.aborted) fired();
      else signal.addEventListener("abort", fired);
    });
  }
}

function outcomeOf(value: Action): unknown {
  switch (value.fail) {
    case undefined:
      return value.result;
    case "not_done":
      throw new driftq.NotDone(value.error);
    case "final":
      throw new driftq.Final(value.error);
    default:
      throw new Error(value.error);
  }
}

function findingOf(reconcile: Action | string): Finding<unknown> {
  if (reconcile === "not_done") return found.notDone();
  if (reconcile === "unknown") return found.unknown();
  const answer = reconcile as { succeeded?: unknown; failed?: string };
  return answer.failed === undefined ? found.succeeded(answer.succeeded) : found.failed(answer.failed);
}

/** Where a document is other than its shape; nothing if it matches. */
export function mismatch(document: any, shape: any, where = ""): string | undefined {
  if (typeof shape !== "object" || shape === null) return document === shape ? undefined : `${where}: ${JSON.stringify(document)} is not ${JSON.stringify(shape)}`;
  if ("$any" in shape) return document === undefined ? `${where}: nothing is there` : undefined;
  if ("$starts" in shape) return String(document).startsWith(shape.$starts) ? undefined : `${where}: ${document} does not start with ${shape.$starts}`;
  if (typeof document !== "object" || document === null) return `${where}: ${JSON.stringify(document)} is not ${JSON.stringify(shape)}`;
  if (Array.isArray(shape) && document.length !== shape.length) return `${where}: ${document.length} item(s), not ${shape.length}`;
  for (const [name, member] of Object.entries(shape)) {
    const wrong = mismatch(document[name], member, `${where}/${name}`);
    if (wrong) return wrong;
  }
  return undefined;
}
