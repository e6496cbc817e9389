// Messages: search, and one of them with all that is known.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { call, get, path, post, Problem, type Query } from "../api";
import { count, duration, WHY, words } from "../format";
import { go, link, useLoad, useNow } from "../hooks";
import { useLive } from "../live";
import { Ask, Card, Empty, Facts, Field, Head, Opens, Pill, Show, Table, Value, When } from "../parts";
import { useMay } from "../session";
import type { Attempt, GroupState, Item, MessageState, RetryPolicy } from "../types";
import type { PageProps } from ".";

const STATES = Object.keys(WHY);

export function Messages({ names, query }: PageProps) {
  const [topic, partition, offset] = names;
  if (topic !== undefined && partition !== undefined && offset !== undefined) {
    return <One topic={topic} partition={partition} offset={offset} />;
  }
  return <Search query={query} />;
}

const FIELDS: [string, string][] = [
  ["key", "Key"],
  ["run_id", "Run"],
  ["tenant_id", "Tenant"],
  ["label", "Label"],
  ["idempotency_key", "Idempotency key"],
];

function Search({ query }: { query: URLSearchParams }) {
  const live = useLive();
  const [asked, setAsked] = useState<Record<string, string>>(() => ({ topic: "", ...Object.fromEntries(query) }));
  const set = (name: string) => (value: string) => setAsked({ ...asked, [name]: value });
  const given = Object.fromEntries(query);
  const topics = [...live.topics.keys()].sort();
  return (
    <>
      <Head title="Messages" />
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          go(link(["messages"], asked));
        }}
      >
        <Field label="Topic" value={asked.topic ?? ""} set={set("topic")} required search />
        {FIELDS.map(([name, label]) => (
          <Field key={name} label={label} value={asked[name] ?? ""} set={set(name)} placeholder={name === "label" ? "team=risk" : ""} />
        ))}
        <Field label="State" value={asked.state ?? ""} set={set("state")} choices={[["", "any"], ...STATES.map((state): [string, string] => [state, words(state)])]} />
        <button class="primary" type="submit">
          Search
        </button>
      </form>
      {given.topic ? (
        <Found topic={given.topic} given={given} />
      ) : (
        <Card title="Which topic?">
          <div class="chips">
            {topics.slice(0, 60).map((name) => (
              <a key={name} class="chip" href={link(["messages"], { topic: name })}>
                {name}
              </a>
            ))}
          </div>
          {topics.length === 0 && <Empty>There are no topics yet.</Empty>}
        </Card>
      )}
    </>
  );
}

interface Browsed {
  messages: Item[];
  scanned: number;
  cursor?: string;
}

function Found({ topic, given }: { topic: string; given: Record<string, string> }) {
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1);
  const loaded = useLoad(
    () => {
      const { topic: _, label, ...rest } = given;
      const [name, value] = (label ?? "").split(/=(.*)/s);
      const asked: Query = { ...rest, limit: 50, cursor };
      if (name && value !== undefined) asked[`label.${name}`] = value;
      return get<Browsed>(path("topics", topic, "messages"), asked);
    },
    ["browse", given, cursor],
    cursor === undefined,
  );
  return (
    <Card title={<>In <a href={link(["topics", topic])}>{topic}</a></>} note={loaded.data && `${count(loaded.data.scanned)} looked at`} flush>
      <Show of={loaded}>
        {(data) => (
          <>
            <Table
              label="Messages"
              rows={data.messages}
              id={(row) => `${row.partition}/${row.offset}`}
              to={(row) => link(["messages", topic, row.partition, row.offset])}
              empty={data.cursor ? "Nothing on this page; the search goes on with the next." : "No message fits."}
              columns={[
                { name: "Offset", cell: (row) => `${row.partition}/${count(row.offset)}` },
                { name: "Key", cell: (row) => <span class="clip">{row.key ?? row.key_b64 ?? ""}</span> },
                { name: "Value", cell: (row) => <span class="clip value-cell">{row.payload_hidden ? "(hidden)" : (row.value ?? "(bytes)").slice(0, 160)}</span>, wide: true },
                { name: "Run", cell: (row) => row.envelope?.run_id && <a class="clip" href={link(["runs", row.envelope.run_id], { tenant: row.envelope.tenant_id })}>{row.envelope.run_id}</a>, wide: true },
                { name: "Produced", cell: (row) => <When at={row.produced_at} /> },
              ]}
            />
            {(cursors.length > 0 || data.cursor) && (
              <p class="table-end">
                <button type="button" disabled={cursors.length === 0} onClick={() => setCursors(cursors.slice(0, -1))}>Back</button>
                <button type="button" disabled={!data.cursor} onClick={() => data.cursor && setCursors([...cursors, data.cursor])}>Next</button>
              </p>
            )}
          </>
        )}
      </Show>
    </Card>
  );
}

function One({ topic, partition, offset }: { topic: string; partition: string; offset: string }) {
  const may = useMay();
  const loaded = useLoad(() => get<MessageState>(path("topics", topic, "messages", partition, offset)), ["message", topic, partition, offset]);
  const cancel = async () => {
    await call("DELETE", path("topics", topic, "messages", partition, offset));
    loaded.again();
  };
  const retry = async () => {
    await post(path("topics", topic, "messages", partition, offset, "retry"));
    loaded.again();
  };
  const waits = loaded.data?.groups.filter((group) => group.state === "backoff") ?? [];
  const name = `${topic} ${partition}/${offset}`;
  return (
    <>
      <Head above={<><a href={link(["messages"], { topic })}>Messages</a> / <a href={link(["topics", topic])}>{topic}</a></>} title={<span class="name">{partition}/{offset}</span>}>
        {may("manage") && waits.length > 0 && (
          <Opens label="Retry now" kind="primary">
            {(close) => (
              <Ask title={<>Try {name} again at once?</>} verb={`Retry ${partition}/${offset}`} act={retry} close={close}>
                <p>
                  It does not wait any longer in {waits.map((group) => group.group).join(", ")}: the next worker gets it. The attempt counts like any other.
                </p>
              </Ask>
            )}
          </Opens>
        )}
        {may("manage") && loaded.data && !loaded.data.cancelled && (
          <Opens label="Cancel the message" kind="danger">
            {(close) => (
              <Ask title={<>Cancel the message {name}?</>} verb={`Cancel ${partition}/${offset}`} danger act={cancel} close={close}>
                <p>No further attempt begins, in no group. A worker that holds it learns of it when it next extends its lease.</p>
              </Ask>
            )}
          </Opens>
        )}
      </Head>
      {loaded.error instanceof Problem && loaded.error.status === 404 && (
        <p>
          Every group may be done with it. If it died, it is among the <a href={link(["letters", topic])}>dead letters of {topic}</a>.
        </p>
      )}
      <Show of={loaded}>
        {(data) => (
          <>
            <Card title="Why it waits">
              {data.cancelled && <p><Pill state="cancelled" /> It was cancelled: no further attempt begins.</p>}
              {data.groups.length === 0 ? (
                <Empty>No group reads {topic}. The message waits for the first one.</Empty>
              ) : (
                data.groups.map((group) => <Standing key={group.group} topic={topic} of={group} />)
              )}
            </Card>
            <Card title="Value">
              <Value text={data.value} base64={data.value_b64} hidden={data.payload_hidden} />
            </Card>
            <Card title="Envelope">
              <Facts of={envelope(data)} />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

function Standing({ topic, of }: { topic: string; of: GroupState }) {
  const now = useNow();
  const left = of.until ? Date.parse(of.until) - now : undefined;
  return (
    <div class="why">
      <p>
        <a class="name" href={link(["topics", topic, "groups", of.group])}>{of.group}</a> <Pill state={of.state} />{" "}
        {of.state === "in_flight" && of.owner ? <>On loan to <b>{of.owner}</b>.</> : (WHY[of.state] ?? words(of.state))}
      </p>
      <p class="dim">
        since <When at={of.since} />
        {left !== undefined && <>, {left > 0 ? <>for <b>{duration(left)}</b> more</> : "its time is over"}</>}
        {of.attempt > 0 && <>; attempt {of.attempt}</>}
      </p>
      {of.last_error && <p class="error">{of.last_error}</p>}
      <Attempts of={of.history} />
    </div>
  );
}

export function Attempts({ of }: { of: Attempt[] }) {
  if (of.length === 0) return null;
  return (
    <Table
      label="Attempts"
      rows={of}
      id={(row) => String(row.attempt)}
      empty=""
      columns={[
        { name: "Attempt", cell: (row) => row.attempt },
        { name: "Worker", cell: (row) => row.owner },
        { name: "Began", cell: (row) => <When at={row.leased_at} />, wide: true },
        { name: "Took", cell: (row) => duration(Date.parse(row.ended_at) - Date.parse(row.leased_at)), number: true },
        { name: "Error", cell: (row) => <span class="error">{row.error}</span> },
      ]}
    />
  );
}

const policy = (of: RetryPolicy | undefined): string =>
  of ? Object.entries(of).filter(([, value]) => value !== null).map(([name, value]) => `${words(name)} ${value}`).join(", ") : "";

export function envelope(item: Item & { retry_policy?: RetryPolicy }): [string, ComponentChildren][] {
  const inner = item.envelope ?? {};
  return [
    ["Key", item.key ?? item.key_b64],
    ["Produced", <><When at={item.produced_at} /> <span class="dim">{item.produced_at}</span></>],
    ["Due", item.deliver_at && <><When at={item.deliver_at} /> <span class="dim">{item.deliver_at}</span></>],
    ["Priority", String(item.priority)],
    ["Run", inner.run_id && <a href={link(["runs", inner.run_id], { tenant: inner.tenant_id })}>{inner.run_id}</a>],
    ["Step", inner.step_id],
    ["Parent step", inner.parent_step_id],
    ["Tenant", inner.tenant_id],
    ["Idempotency key", inner.idempotency_key],
    ["Request hash", inner.request_hash as string | undefined],
    ["Deadline", inner.deadline as string | undefined],
    ["Labels", inner.labels && Object.entries(inner.labels).map(([name, value]) => <span key={name} class="reason">{name}={value}</span>)],
    ["Retry policy", policy(item.retry_policy)],
    ["Routed", item.routing && `${item.routing.label}`],
    ["Born as", `${item.origin.topic} ${item.origin.partition}/${item.origin.offset}`],
  ];
}
