import { decodeMessage, type Message, type RetryPolicy } from "./message.js";
import type { EffectRecord } from "./terms.js";
import type { Transport } from "./transport.js";
import { path, query, toCamel, toSnake, type WireItem } from "./wire.js";

export interface TopicSettings {
  partitions?: number;
  ordering?: "priority" | "fifo" | "key";
  maxInFlight?: number;
  leaseMs?: number;
  retryPolicy?: RetryPolicy;
  retrySharePercent?: number;
  retentionMs?: number;
  retentionBytes?: number;
  partitionMessagesMax?: number;
  partitionBytesMax?: number;
}

/** How far a group has got. */
export interface Group {
  readonly name: string;
  readonly topic: string;
  /** Messages that the group is not done with. */
  readonly lag: number;
  readonly inFlight: number;
  readonly retrying: number;
  readonly consumers: number;
  readonly pausedAt?: string;
}

export interface Resolution {
  scope: string;
  key: string;
  tenantId?: string;
  /** Must still be the newest one, if given. */
  epoch?: number;
  status: "succeeded" | "failed_final" | "failed_retryable";
  /** Stored as JSON. */
  result?: unknown;
  error?: string;
  by: string;
  why: string;
}

/** Topics, groups, messages, effects, runs and dead letters, to look at and to manage. */
export class Admin {
  constructor(private readonly transport: Transport) {}

  /** Creates the topic, or confirms that it exists with exactly these settings. */
  async createTopic(topic: string, settings: TopicSettings = {}): Promise<void> {
    await this.transport.call("PUT", path`/v2/topics/${topic}`, { body: toSnake(settings) });
  }

  /** Deletes the topic with everything in it. */
  async deleteTopic(topic: string): Promise<void> {
    await this.transport.call("DELETE", path`/v2/topics/${topic}` + query({ confirm: topic }));
  }

  async group(topic: string, group: string): Promise<Group> {
    return toCamel(await this.transport.call("GET", path`/v2/topics/${topic}/groups/${group}`));
  }

  /** The messages that are kept, page by page. */
  async *messages(topic: string, filter: { key?: string; runId?: string; tenantId?: string } = {}): AsyncGenerator<Message> {
    const target = path`/v2/topics/${topic}/messages`;
    for await (const page of this.#pages<{ messages: WireItem[] }>(target, filter)) yield* page.messages.map(decodeMessage);
  }

  /** No further attempt by any group; a worker that has it learns of it from its next heartbeat. */
  async cancelMessage(topic: string, partition: number, offset: number): Promise<void> {
    await this.transport.call("DELETE", path`/v2/topics/${topic}/messages/${partition}/${offset}`);
  }

  /** The dead letters of a topic, page by page. */
  async *deadLetters(topic: string, filter: { group?: string; reason?: string } = {}): AsyncGenerator<Message> {
    const target = path`/v2/dlq/${topic}`;
    for await (const page of this.#pages<{ letters: WireItem[] }>(target, filter)) yield* page.letters.map(decodeMessage);
  }

  /** The effects that are remembered, oldest first, page by page; without their results. */
  async *effects(filter: { scope?: string; state?: EffectRecord["state"]; tenantId?: string } = {}): AsyncGenerator<EffectRecord> {
    for await (const page of this.#pages<{ effects: unknown[] }>("/v2/effects", filter)) {
      yield* page.effects.map((effect) => toCamel<EffectRecord>(effect));
    }
  }

  async effect(scope: string, key: string, tenantId?: string): Promise<EffectRecord> {
    return toCamel(await this.transport.call("POST", "/v2/effects/get", { body: { scope, key, tenant_id: tenantId } }));
  }

  /** Records what came of an effect that its holder did not finish. */
  async resolve(resolution: Resolution): Promise<void> {
    const { result, ...rest } = resolution;
    const json = { body: JSON.stringify(result), headers: { "content-type": "application/json" } };
    await this.transport.call("POST", "/v2/effects/resolve", { body: { ...toSnake<object>(rest), ...(result === undefined ? {} : json) } });
  }

  async *#pages<P extends object>(target: string, filter: object): AsyncGenerator<P, void, void> {
    let cursor: string | undefined;
    do {
      const fields = { ...toSnake<Record<string, string>>(filter), cursor };
      const page = await this.transport.call<P & { cursor?: string | null }>("GET", target + query(fields));
      yield page as Awaited<P>;
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
  }
}

