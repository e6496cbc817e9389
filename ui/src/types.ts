// What the API answers, as far as the pages show it. The OpenAPI document of the server says everything.

import type { Exact } from "./json";

/** A whole number, however large. */
export type Int = number | Exact;
export type Page<T, K extends string> = { [P in K]: T[] } & { cursor?: string | null };

export interface Session {
  keys_required: boolean;
  actor: string;
  note?: string;
  actions: string[];
  topics?: string[];
  tenants?: string[];
  expires_at?: string;
}

export interface Sample {
  at: string;
  epoch: number;
  produced: number;
  delivered: number;
  redelivered: number;
  acked: number;
  nacked: number;
  buried: number;
  effects_executed: number;
  effects_replayed: number;
  commits: number;
  written_bytes: number;
  topics: number;
  messages: number;
  bytes: number;
  lag: number;
  in_flight: number;
  retrying: number;
  scheduled: number;
  dead_letters: number;
  oldest_at?: string;
  effects_in_progress: number;
  effects_retryable: number;
  effects_unknown: number;
  streams: number;
  segments: number;
}

export interface TopicRow {
  name: string;
  messages: number;
  bytes: number;
  next_offset: Int;
  lag: number;
  in_flight: number;
  retrying: number;
  scheduled: number;
  consumers: number;
  groups: number;
  paused: boolean;
  oldest_at?: string;
}

export interface LiveEvent {
  sample: Sample;
  history?: { every_ms: number; samples: Sample[] };
  topics?: TopicRow[];
  gone?: string[];
  left_out: number;
}

export interface RetryPolicy {
  max_attempts?: number;
  backoff_ms?: number;
  max_backoff_ms?: number;
  jitter?: string;
}

export interface Partition {
  partition: number;
  messages: number;
  bytes: number;
  oldest_at?: string;
  oldest_offset?: Int;
  earliest_offset?: Int;
  kept_messages?: number;
  kept_bytes?: number;
}

export interface Topic {
  name: string;
  tenant?: string;
  created_at: string;
  messages: number;
  bytes: number;
  dead_letters: number;
  scheduled: number;
  next_offset: Int;
  groups: string[];
  oldest_at?: string;
  paused_at?: string;
  partitions: Partition[];
  settings: Record<string, unknown> & { set: string[]; retry_policy: RetryPolicy };
}

export interface Group {
  name: string;
  topic: string;
  consumers: number;
  readers?: number;
  lag: number;
  in_flight: number;
  retrying: number;
  seen_at: string;
  paused_at?: string;
  members?: { owner: string; kind: string; in_flight: number }[];
  partitions: { partition: number; lag: number; in_flight: number; retrying: number; acked_below?: Int }[];
  waiting?: Record<string, number>;
  leases?: GroupLease[];
}

export interface GroupLease {
  partition: number;
  offset: Int;
  owner: string;
  attempt: number;
  leased_at: string;
  expires_at: string;
}

export interface Finding {
  verdict: string;
  what: string;
  cause: string;
  next?: string;
  area: string;
  topic?: string;
  group?: string;
  message?: [number, Int];
}

export interface Report {
  verdict: string;
  act: number;
  look: number;
  findings: Finding[];
  left_out: number;
}

export interface Cause {
  cause: string;
  letters: number;
  first_at: string;
  last_at: string;
}

export interface Tenant {
  tenant: string;
  limits: Record<string, number | undefined>;
  topics: number;
  messages: number;
  bytes: number;
  effects: number;
}

export interface Attempt {
  attempt: number;
  owner: string;
  leased_at: string;
  ended_at: string;
  error: string;
}

export interface DeadLetter {
  topic: string;
  partition: number;
  offset: Int;
  group: string;
  attempts: number;
  reason: string;
  last_error: string;
  at: string;
  history?: Attempt[];
}

export interface Envelope {
  run_id?: string;
  step_id?: string;
  parent_step_id?: string;
  tenant_id?: string;
  idempotency_key?: string;
  labels?: Record<string, string>;
  dead_letter?: DeadLetter;
  [field: string]: unknown;
}

export interface Item {
  topic: string;
  partition: number;
  offset: Int;
  key?: string;
  key_b64?: string;
  value?: string;
  value_b64?: string;
  payload_hidden?: boolean;
  priority: number;
  produced_at: string;
  deliver_at?: string;
  kept?: boolean;
  envelope?: Envelope;
  origin: { topic: string; partition: number; offset: Int; incarnation: Int };
  routing?: { label: string; meta?: Record<string, string> };
}

export interface GroupState {
  group: string;
  state: string;
  since: string;
  until?: string;
  owner?: string;
  attempt: number;
  last_error?: string;
  history: Attempt[];
}

export interface MessageState extends Item {
  cancelled: boolean;
  retry_policy?: RetryPolicy;
  groups: GroupState[];
}

export interface Effect {
  tenant_id: string;
  scope: string;
  key: string;
  state: string;
  epoch: number;
  attempt: number;
  max_attempts?: number;
  on_lapse: string;
  owner?: string;
  request_hash?: string;
  run_id?: string;
  step_id?: string;
  created_at: string;
  begun_at: string;
  expires_at?: string;
  lease_expires_at?: string;
  lease_live?: boolean;
  unknown_since?: string;
  message?: { topic: string; partition: number; offset: Int; attempt?: number };
  outcome?: Outcome & { status?: string; finished_at?: string };
  last_outcome?: Outcome;
}

export interface Outcome {
  code?: number;
  body?: string;
  body_b64?: string;
  error?: string;
  headers?: Record<string, string>;
  resolved_by?: string;
  resolved_why?: string;
}

export interface Job {
  id: string;
  kind: string;
  topic: string;
  state: string;
  dry_run: boolean;
  matched: number;
  done: number;
  failed: number;
  refused: number;
  skipped: number;
  started_at: string;
  ended_at?: string;
  error?: string;
}

export interface RunSummary {
  run_id: string;
  tenant_id?: string;
  started_at: string;
  last_at: string;
  messages: number;
  effects: number;
  open: number;
  dead_letters: number;
  unlisted: number;
}

export interface StepMessage {
  topic: string;
  partition: number;
  offset: Int;
  stored_at: string;
  groups: StepGroup[];
  outputs?: { tenant_id?: string; dataset: string; version: string; partition_key: string; committed_at: string }[];
}

export interface StepGroup {
  group: string;
  state: string;
  attempts: number;
  first_leased_at?: string;
  leased_at?: string;
  owner?: string;
  waits?: { state: string; since: string; until?: string };
  ended_at?: string;
  last_error?: string;
  history: Attempt[];
}

export interface RunStep {
  step_id?: string;
  parent_step_id?: string;
  children: string[];
  messages: StepMessage[];
  effects: Effect[];
}

export interface Run extends RunSummary {
  cursor?: string;
  steps: RunStep[];
}

export interface Endpoint {
  name: string;
  state: string;
  version: number;
  created_at: string;
  updated_at: string;
  disabled?: { at: string; by: string; reason: string };
  spec: { kind: string; url: string; method?: string; description?: string; topics?: string[] };
}

export interface Delivery {
  delivery_id: string;
  endpoint: string;
  state: string;
  created_at: string;
  next_at?: string;
  message: { topic: string; partition: number; offset: Int };
  attempts: { at: string; attempt: number; outcome: string; status?: number; error?: string; took_ms?: number }[];
}

export interface ExportRecord {
  export_id: string;
  place: string;
  state: string;
  created_at: string;
  rows?: number;
  bytes?: number;
  parts?: number;
  location?: string;
  error?: string;
  next_at?: string;
}

export interface Key {
  id: string;
  actions: string[];
  created_at: string;
  expires_at?: string;
  live: boolean;
  note?: string;
  parent?: string;
  tenants?: string[];
  topics?: string[];
}

export interface AuditEntry {
  sequence: number;
  at: string;
  actor: string;
  note?: string;
  action: string;
  target?: string;
  outcome: string;
  detail?: string;
  from: string;
  request_id: string;
}

export interface Status {
  version: string;
  commit: string;
  ready: boolean;
  writable: boolean;
  why?: string;
  durability: string;
  durable: boolean;
  data?: string;
  epoch: number;
  uptime_ms: number;
  topics: number;
  streams?: number;
  connections?: number;
  segments?: number;
  shards?: number;
  recovery: { duration_ms: number };
}
