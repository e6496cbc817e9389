// A run as lanes over time: what each message, effect and output waited for, and what was done with it.

import { duration, WHY, words } from "../format";
import { link } from "../hooks";
import type { Effect, Run, RunStep, StepGroup, StepMessage } from "../types";

export type Kind = "wait" | "retry" | "work" | "effect" | "held" | "output";

/** A stretch of time, and what it was for. */
export interface Bar {
  kind: Kind;
  from: number;
  to: number;
  words: string;
  /** The same in few words, if there are many. */
  short?: string;
  /** Whether it goes on. */
  isOpen?: boolean;
  /** When it is over, where that is known. */
  until?: number | undefined;
}

export interface Lane {
  id: string;
  what: "message" | "effect" | "output";
  name: string;
  /** Whose it is: the group. */
  of?: string;
  to: string;
  state: string;
  bars: Bar[];
}

export interface StepLanes {
  name: string;
  parent: string | undefined;
  lanes: Lane[];
}

const at = (moment: string): number => Date.parse(moment);

/** Steps in the order in which they came, each with its lanes. */
export function stepLanes(run: Run, now: number): StepLanes[] {
  return run.steps.map((step) => ({
    name: step.step_id ?? "",
    parent: step.parent_step_id,
    lanes: [...step.messages.flatMap((message) => ofMessage(message, now)), ...step.effects.map((effect) => ofEffect(effect, now))],
  }));
}

function ofMessage(message: StepMessage, now: number): Lane[] {
  const place = `${message.partition}/${message.offset}`;
  const lane = { what: "message" as const, name: `${message.topic} ${place}`, to: link(["messages", message.topic, message.partition, message.offset]) };
  const id = `${message.topic}/${place}`;
  const groups = message.groups.map((group) => ({ ...lane, id: `${id} ${group.group}`, of: group.group, state: group.state, bars: ofGroup(message, group, now) }));
  const alone = { ...lane, id, state: "waiting", bars: [{ kind: "wait" as const, from: at(message.stored_at), to: now, words: "no group reads the topic", isOpen: true }] };
  const outputs = (message.outputs ?? []).map((output) => ({
    id: `${id} ${output.dataset} ${output.version} ${output.partition_key}`,
    what: "output" as const,
    name: `${output.dataset} ${output.version}`,
    of: output.partition_key,
    to: link(["outputs", output.dataset, output.version], { tenant: output.tenant_id }),
    state: "committed",
    bars: [{ kind: "output" as const, from: at(output.committed_at), to: at(output.committed_at), words: "committed" }],
  }));
  return [...(groups.length > 0 ? groups : [alone]), ...outputs];
}

function ofGroup(message: StepMessage, group: StepGroup, now: number): Bar[] {
  const bars: Bar[] = [];
  let last = at(message.stored_at);
  const waited = (until: number) => {
    if (until <= last && bars.length > 0) return;
    bars.push({ kind: bars.length > 0 ? "retry" : "wait", from: last, to: until, words: bars.length > 0 ? "waited for its next attempt" : "waited for its turn and a worker" });
  };
  for (const attempt of group.history) {
    waited(at(attempt.leased_at));
    bars.push({ kind: "work", from: at(attempt.leased_at), to: at(attempt.ended_at), words: `attempt ${attempt.attempt}${attempt.owner && ` by ${attempt.owner}`}${attempt.error && `: ${attempt.error}`}` });
    last = at(attempt.ended_at);
  }
  const leased = group.leased_at ? at(group.leased_at) : undefined;
  const end = group.ended_at ? at(group.ended_at) : undefined;
  // The newest attempt is in the history only if it failed.
  const isNew = leased !== undefined && leased >= last && group.attempts > (group.history.at(-1)?.attempt ?? 0);
  if (isNew && (end !== undefined || group.state === "running")) {
    waited(leased);
    const who = group.owner ? ` by ${group.owner}` : "";
    const until = group.waits?.until ? at(group.waits.until) : undefined;
    bars.push({ kind: "work", from: leased, to: end ?? now, words: `attempt ${group.attempts}${who}`, isOpen: end === undefined, until });
  } else if (end === undefined) {
    const { waits } = group;
    const reason = waits ? (waits.state === "ready" ? "waits for a worker" : `${words(waits.state)}: ${clause(WHY[waits.state] ?? "")}`) : words(group.state);
    bars.push({ kind: bars.length > 0 ? "retry" : "wait", from: last, to: now, words: reason, short: waits?.state === "ready" ? "waits for a worker" : words(waits?.state ?? group.state), isOpen: true, until: waits?.until ? at(waits.until) : undefined });
  } else if (end > last) {
    bars.push({ kind: bars.length > 0 ? "retry" : "wait", from: last, to: end, words: `was not delivered again: ${words(group.state)}` });
  }
  return bars;
}

/** A sentence as part of another. */
const clause = (sentence: string): string => sentence.replace(/\.$/, "").replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase());

function ofEffect(effect: Effect, now: number): Lane {
  const [created, begun] = [at(effect.created_at), at(effect.begun_at)];
  const bars: Bar[] = [];
  if (begun > created) bars.push({ kind: "retry", from: created, to: begun, words: plural(effect.attempt - 1) });
  const finished = effect.outcome?.finished_at ?? effect.unknown_since;
  const who = effect.owner ? ` by ${effect.owner}` : "";
  const lease = effect.lease_expires_at ? at(effect.lease_expires_at) : undefined;
  bars.push({ kind: "effect", from: begun, to: finished ? at(finished) : now, words: `attempt ${effect.attempt}${who}, ${words(effect.state)}`, isOpen: !finished, until: lease });
  if (effect.unknown_since) bars.push({ kind: "held", from: at(effect.unknown_since), to: now, words: "its outcome is unknown: it waits for somebody who finds out", short: "its outcome is unknown", isOpen: true });
  return {
    id: `effect ${effect.tenant_id} ${effect.scope} ${effect.key}`,
    what: "effect",
    name: `${effect.scope} · ${effect.key}`,
    to: link(["effects", effect.tenant_id || "-", effect.scope, effect.key]),
    state: effect.state,
    bars,
  };
}

const plural = (earlier: number): string => (earlier === 1 ? "an earlier attempt" : `${earlier} earlier attempts`);

/** What a lane is about right now, or what took it longest. */
export function gist(lane: Lane, now: number): string {
  const open = lane.bars.find((bar) => bar.isOpen);
  if (open) {
    const left = open.until === undefined ? "" : open.until > now ? `, ${duration(open.until - now)} left` : ", its time is over";
    return `${open.short ?? open.words}${left}`;
  }
  if (lane.what === "output") return "committed";
  const sum = (kinds: Kind[]) => lane.bars.filter((bar) => kinds.includes(bar.kind)).reduce((total, bar) => total + bar.to - bar.from, 0);
  const [waited, backed, worked] = [sum(["wait"]), sum(["retry"]), sum(["work", "effect"])];
  return [waited > 0 && `waited ${duration(waited)}`, backed > 0 && `backed off ${duration(backed)}`, `worked ${duration(worked)}`].filter(Boolean).join(", ");
}

/** How a step does: what is worst about it. */
export function stateOf(lanes: Lane[]): string {
  const order = ["unknown", "dead_lettered", "failed_final", "running", "in_progress", "retrying", "failed_retryable", "waiting", "cancelled"];
  return order.find((state) => lanes.some((lane) => lane.state === state)) ?? "done";
}

/** Pages of a run as one: a step may go on on the next. */
export function joined(pages: Run[]): Run {
  const steps = new Map<string, RunStep>();
  for (const step of pages.flatMap((page) => page.steps)) {
    const name = step.step_id ?? "";
    const known = steps.get(name);
    if (!known) steps.set(name, { ...step });
    else steps.set(name, { ...known, messages: [...known.messages, ...step.messages], effects: [...known.effects, ...step.effects] });
  }
  return { ...pages.at(-1)!, steps: [...steps.values()] };
}
