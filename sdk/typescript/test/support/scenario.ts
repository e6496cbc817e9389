import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as driftq from "../../src/index.js";
import { found, type Client, type Context, type EffectOptions, type Finding } from "../../src/index.js";
import { sleep } from "../../src/time.js";
import { toCamel } from "../../src/wire.js";
import type { Proxy } from "./proxy.js";

// Runs the files of tests/scenarios; their words are explained in the README there.

export const FOLDER = fileURLToPath(new URL("../../../../tests/scenarios/", import.meta.url));

export type Action = Record<string, any>;

export interface Scenario {
  name: string;
  topics: Record<string, object>;
  produce: { topic: string; message: object }[];
  front?: Rule[];
  worker: { topic: string; group: string; lease_ms: number; heartbeat?: boolean; concurrency?: number; timeout_ms?: number; required?: string[] };
  handler: Record<string, Action[]>;
  expect: {
    attempts: number[];
    executions: Record<string, number>;
    reconciled?: Record<string, number>;
    requests?: { post: string; body_has?: string; at_least: number; at_most: number }[];
    server: { get: string; has: unknown; status?: number }[];
  };
}

/** What happens to calls between the worker and the server. */
type Rule = { body_has: string; lose: "request" | "answer"; times?: number } | { post: string; without: string };

/** Does to the calls of a worker what the scenario says. */
export function front(proxy: Proxy, rules: readonly Rule[]): void {
  const lost = new Map<Rule, number>();
  proxy.deed = ({ body }) => {
    for (const rule of rules) {
      const times = lost.get(rule) ?? 0;
      if (!("lose" in rule) || !body.includes(rule.body_has) || times >= (rule.times ?? Number.POSITIVE_INFINITY)) continue;
      lost.set(rule, times + 1);
      return rule.lose === "request" ? "lose_request" : "lose_answer";
    }
    return "pass";
  };
  proxy.rewrite = ({ path, body }) => {
    const left = rules.flatMap((rule) => ("without" in rule && rule.post === path ? [rule.without] : []));
    if (left.length === 0) return body;
    return JSON.stringify(JSON.parse(body), (name, value: unknown) => (left.includes(name) ? undefined : value));
  };
}

export function scenarios(): Scenario[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json") && file !== "digests.json");
  return files.map((file) => JSON.parse(readFileSync(FOLDER + file, "utf8")) as Scenario);
}

/** What a run of a scenario has seen. */
export class Play {
  readonly attempts: number[] = [];
  readonly executions: Record<string, number> = {};
  /** How often reconcile functions were asked, by scope. */
  readonly reconciled: Record<string, number> = {};
  /** What a handler found to be other than the scenario says. */
  readonly complaints: string[] = [];
  #calls = 0;

  constructor(
    private readonly scenario: Scenario,
    /** For what others do, besides the worker. */
    private readonly client: Client,
    /** The worker's own. */
    private readonly own: Client,
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
        return sleep(value.leases * this.scenario.worker.lease_ms);
      case "leave":
        return this.#leave(value);
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
    const { key, args, on_lapse: onLapse, max_attempts: maxAttempts, wait_ms: waitMs, lease_ms: leaseMs } = value;
    const options: EffectOptions = { key, args, onLapse, maxAttempts, waitMs, leaseMs };
    if (value.reconcile !== undefined) options.reconcile = () => this.#reconciled(value);
    try {
      const result = await (value.outside ? this.own : context).effect(value.scope, options, async () => {
        this.executions[value.scope] = (this.executions[value.scope] ?? 0) + 1;
        if (value.outlives) await sleep(value.outlives.leases * this.scenario.worker.lease_ms);
        return outcomeOf(value);
      });
      if (value.raises) this.complaints.push(`${value.scope} did not raise ${value.raises}`);
      else if ("value" in value && JSON.stringify(result) !== JSON.stringify(value.value)) this.complaints.push(`${value.scope} gave ${JSON.stringify(result)}`);
    } catch (error) {
      this.#expectError(value.scope, error, value.raises);
      if (!value.caught) throw error;
    }
  }

  /** Another holder begins the effect, and is not heard of again. */
  async #leave({ scope, key, lease_ms }: Action): Promise<void> {
    const body = { scope, key, lease_ms: lease_ms ?? 1, reacquire: true };
    const begun = await this.client.call<{ decision: string }>("POST", "/v2/effects/begin", { body });
    if (begun.decision !== "execute") this.complaints.push(`the other holder was told ${begun.decision}`);
    while (lease_ms === undefined && (await this.client.admin.effect(scope, key)).state !== "unknown") await sleep(5);
  }

  async #reconciled(value: Action): Promise<Finding<unknown>> {
    const { scope, key, reconcile } = value;
    this.reconciled[scope] = (this.reconciled[scope] ?? 0) + 1;
    if (reconcile !== "taken") return findingOf(reconcile);
    await this.client.admin.resolve({ scope, key, status: "failed_retryable", by: "another holder", why: "a scenario" });
    await this.#leave({ scope, key });
    return found.notDone();
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
    case "not_sent":
      throw new driftq.NotSent(value.error);
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
