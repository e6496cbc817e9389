// Topics, their groups and partitions.

import { useState } from "preact/hooks";

import { call, get, pages, path, post } from "../api";
import { bytes, count, duration, plural, WHY, words } from "../format";
import { go, link, useLoad, useNow } from "../hooks";
import { useLive } from "../live";
import { Ask, Card, type Column, Empty, Facts, Field, Head, Opens, Pill, Show, Table, When } from "../parts";
import { useMay } from "../session";
import type { Group, Topic, TopicRow } from "../types";
import type { PageProps } from ".";
import { Produce } from "./produce";

const COLUMNS: Column<TopicRow>[] = [
  { name: "Topic", cell: (row) => row.name },
  { name: "To do", cell: (row) => count(row.lag), number: true },
  { name: "In flight", cell: (row) => count(row.in_flight), number: true },
  { name: "Retrying", cell: (row) => count(row.retrying), number: true, wide: true },
  { name: "Scheduled", cell: (row) => count(row.scheduled), number: true, wide: true },
  { name: "Messages", cell: (row) => count(row.messages), number: true, wide: true },
  { name: "Size", cell: (row) => bytes(row.bytes), number: true, wide: true },
  { name: "Oldest", cell: (row) => <When at={row.oldest_at} />, wide: true },
  { name: "Groups", cell: (row) => count(row.groups), number: true, wide: true },
  { name: "Workers", cell: (row) => count(row.consumers), number: true },
  { name: "", cell: (row) => row.paused && <Pill state="paused" /> },
];

export const TopicTable = ({ rows }: { rows: TopicRow[] }) => (
  <Table label="Topics" rows={rows} columns={COLUMNS} id={(row) => row.name} to={(row) => link(["topics", row.name])} empty="There are no topics yet." />
);

export function Topics({ names }: PageProps) {
  const [name, kind, group] = names;
  if (!name) return <List />;
  return kind === "groups" && group ? <OneGroup topic={name} group={group} /> : <OneTopic name={name} />;
}

function List() {
  const live = useLive();
  const may = useMay();
  const [wanted, setWanted] = useState("");
  const [withLetters, setWithLetters] = useState(false);
  // Without the stream there is still the list, with fewer numbers.
  const isOff = live.standing === "off";
  const listed = useLoad(async () => (isOff ? (await pages<TopicRow, "topics">("/v2/topics", "topics", {}, 1000)).rows : []), ["topics", isOff]);
  const all = isOff ? (listed.data ?? []) : [...live.topics.values()];
  const rows = all
    .filter((row) => row.name.toLowerCase().includes(wanted.toLowerCase()) && (withLetters || !row.name.startsWith("dlq.")))
    .sort((one, other) => one.name.localeCompare(other.name));
  return (
    <>
      <Head title="Topics">
        {may("manage") && <Opens label="New topic" kind="primary">{(close) => <NewTopic close={close} />}</Opens>}
      </Head>
      <div class="filters">
        <Field label="Name contains" value={wanted} set={setWanted} search />
        <label class="tick">
          <input type="checkbox" checked={withLetters} onChange={(event) => setWithLetters(event.currentTarget.checked)} />
          with topics of dead letters
        </label>
      </div>
      <Card flush>
        {live.sample || isOff ? (
          isOff ? (
            <Table
              label="Topics"
              rows={rows}
              columns={[COLUMNS[0]!, { name: "Messages", cell: (row) => count(row.messages), number: true }, { name: "Size", cell: (row) => bytes(row.bytes), number: true }]}
              id={(row) => row.name}
              to={(row) => link(["topics", row.name])}
              empty="There are no topics that this key may see."
            />
          ) : (
            <TopicTable rows={rows} />
          )
        ) : (
          <p class="loading">Loading…</p>
        )}
      </Card>
    </>
  );
}

function NewTopic({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const create = async () => {
    await call("PUT", path("topics", name), {}, { partitions: Number(partitions) });
    go(link(["topics", name]));
  };
  return (
    <Ask title="New topic" verb="Create" act={create} close={close}>
      <Field label="Name" value={name} set={setName} required />
      <Field label="Partitions" type="number" value={partitions} set={setPartitions} required hint="Lanes that are worked on side by side; messages of one key stay in one of them." />
    </Ask>
  );
}

function OneTopic({ name }: { name: string }) {
  const may = useMay();
  const topic = useLoad(() => get<Topic>(path("topics", name)), ["topic", name]);
  const groups = useLoad(() => pages<Group, "groups">(path("topics", name, "groups"), "groups", {}, 200), ["groups", name]);
  const again = () => (topic.again(), groups.again());
  return (
    <>
      <Head above={<a href="#/topics">Topics</a>} title={<span class="name">{name}</span>}>
        {topic.data && <TopicActions topic={topic.data} again={again} />}
      </Head>
      <Show of={topic}>
        {(data) => (
          <>
            <Facts
              of={[
                ["State", data.paused_at ? <><Pill state="paused" /> <When at={data.paused_at} /></> : <Pill state="ready" />],
                ["Messages", `${count(data.messages)} (${bytes(data.bytes)})`],
                ["Scheduled", count(data.scheduled)],
                ["Oldest", <When at={data.oldest_at} />],
                ["Next offset", count(data.next_offset)],
                ["Dead letters", <a href={link(["letters", name])}>{count(data.dead_letters)} since start</a>],
                ["Tenant", data.tenant],
                ["Created", <When at={data.created_at} />],
                ["Look inside", <a href={link(["messages"], { topic: name })}>search its messages</a>],
              ]}
            />
            <Card title="Groups" flush>
              <Show of={groups}>
                {({ rows }) => (
                  <Table
                    label="Groups"
                    rows={rows}
                    id={(row) => row.name}
                    to={(row) => link(["topics", name, "groups", row.name])}
                    empty="No group reads this topic. Messages wait for the first one."
                    columns={[
                      { name: "Group", cell: (row) => row.name },
                      { name: "To do", cell: (row) => count(row.lag), number: true },
                      { name: "In flight", cell: (row) => count(row.in_flight), number: true },
                      { name: "Retrying", cell: (row) => count(row.retrying), number: true, wide: true },
                      { name: "Workers", cell: (row) => count(row.members?.length ?? row.consumers), number: true },
                      { name: "Waiting for", cell: (row) => <Waiting of={row.waiting} />, wide: true },
                      { name: "Heard of", cell: (row) => <When at={row.seen_at} />, wide: true },
                      { name: "", cell: (row) => row.paused_at && <Pill state="paused" /> },
                    ]}
                  />
                )}
              </Show>
            </Card>
            <Card title="Partitions" flush>
              <Table
                label="Partitions"
                rows={data.partitions}
                id={(row) => String(row.partition)}
                empty="none"
                columns={[
                  { name: "Partition", cell: (row) => <a href={link(["messages"], { topic: name, partition: String(row.partition) })}>{row.partition}</a> },
                  { name: "Messages", cell: (row) => count(row.messages), number: true },
                  { name: "Size", cell: (row) => bytes(row.bytes), number: true },
                  { name: "Oldest", cell: (row) => <When at={row.oldest_at} /> },
                  { name: "Oldest offset", cell: (row) => count(row.oldest_offset), number: true, wide: true },
                  { name: "Kept", cell: (row) => count(row.kept_messages), number: true, wide: true },
                ]}
              />
            </Card>
            <Card title="Settings" note={may("manage") ? <Opens label="Change">{(close) => <Settings topic={data} done={again} close={close} />}</Opens> : undefined}>
              <Facts of={settings(data)} />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

function settings(topic: Topic): [string, string][] {
  const flat = Object.entries(topic.settings).filter(([name]) => name !== "set" && name !== "retry_policy");
  const policy = Object.entries(topic.settings.retry_policy);
  return [...flat, ...policy]
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [
      words(name.replace(/_ms$/, "")),
      (name.endsWith("_ms") ? duration(Number(value)) : name.endsWith("bytes_max") ? bytes(Number(value)) : String(value)) +
        (topic.settings.set.some((given) => given === name || given === `retry_policy.${name}` || (given === "retry_policy" && name in topic.settings.retry_policy)) ? "" : " (default)"),
    ]);
}

function Waiting({ of }: { of: Record<string, number> | undefined }) {
  const reasons = Object.entries(of ?? {}).filter(([, amount]) => amount > 0);
  return (
    <>
      {reasons.map(([reason, amount]) => (
        <span key={reason} class="reason" title={WHY[reason]}>
          {words(reason)} {count(amount)}
        </span>
      ))}
    </>
  );
}

function TopicActions({ topic, again }: { topic: Topic; again: () => void }) {
  const may = useMay();
  const { name } = topic;
  const verb = topic.paused_at ? "resume" : "pause";
  const change = async () => {
    await post(path("topics", name, verb));
    again();
  };
  const remove = async () => {
    await call("DELETE", path("topics", name), { confirm: name });
    go("#/topics");
  };
  return (
    <>
      {may("produce") && <Opens label="Produce" kind="primary">{(close) => <Produce topic={name} done={again} close={close} />}</Opens>}
      {may("manage") && (
        <>
          <Opens label={topic.paused_at ? "Resume" : "Pause"}>
            {(close) => (
              <Ask title={<>{topic.paused_at ? "Resume" : "Pause"} the topic {name}?</>} verb={topic.paused_at ? `Resume ${name}` : `Pause ${name}`} act={change} close={close}>
                <p>{topic.paused_at ? "Its messages are delivered again." : "Nothing of it is delivered until it is resumed. Messages are still taken, and what workers hold they may finish."}</p>
              </Ask>
            )}
          </Opens>
          <Opens label="Delete" kind="danger">
            {(close) => (
              <Ask title={<>Delete the topic {name}?</>} verb={`Delete ${name}`} danger confirm={name} act={remove} close={close}>
                <p>
                  Its {plural(topic.messages, "message")}, its {plural(topic.groups.length, "group")} and its dead letters are gone for good.
                </p>
              </Ask>
            )}
          </Opens>
        </>
      )}
    </>
  );
}

function Settings({ topic, done, close }: { topic: Topic; done: () => void; close: () => void }) {
  const at = (name: string) => {
    const value = topic.settings[name];
    return value === undefined || value === null ? "" : String(value);
  };
  const [lease, setLease] = useState(at("lease_ms"));
  const [most, setMost] = useState(at("max_in_flight"));
  const [ordering, setOrdering] = useState(at("ordering"));
  const [attempts, setAttempts] = useState(String(topic.settings.retry_policy.max_attempts ?? ""));
  const [backoff, setBackoff] = useState(String(topic.settings.retry_policy.backoff_ms ?? ""));
  const [keep, setKeep] = useState(at("keep_ms"));
  const save = async () => {
    const body: Record<string, unknown> = {};
    for (const [name, value] of [["lease_ms", lease], ["max_in_flight", most], ["keep_ms", keep]] as const) {
      if (value !== at(name)) body[name] = value === "" ? null : Number(value);
    }
    if (ordering !== at("ordering")) body.ordering = ordering;
    const policy = topic.settings.retry_policy;
    if (attempts !== String(policy.max_attempts ?? "") || backoff !== String(policy.backoff_ms ?? "")) {
      body.retry_policy = { ...policy, max_attempts: Number(attempts), backoff_ms: Number(backoff) };
    }
    if (Object.keys(body).length > 0) await call("PATCH", path("topics", topic.name), {}, body);
    done();
  };
  return (
    <Ask title={<>Settings of {topic.name}</>} verb={`Change ${topic.name}`} act={save} close={close}>
      <Field label="Lease, in milliseconds" type="number" value={lease} set={setLease} />
      <Field label="Most in flight in a group" type="number" value={most} set={setMost} hint="Empty: as many as workers take." />
      <Field label="Order" value={ordering} set={setOrdering} choices={[["fifo", "first come, first served"], ["priority", "by priority"], ["key", "one at a time for each key"]]} />
      <Field label="Attempts" type="number" value={attempts} set={setAttempts} />
      <Field label="First backoff, in milliseconds" type="number" value={backoff} set={setBackoff} />
      <Field label="Keep what is done for, in milliseconds" type="number" value={keep} set={setKeep} />
    </Ask>
  );
}

function OneGroup({ topic, group }: { topic: string; group: string }) {
  const loaded = useLoad(() => get<Group>(path("topics", topic, "groups", group)), ["group", topic, group]);
  return (
    <>
      <Head above={<><a href="#/topics">Topics</a> / <a href={link(["topics", topic])}>{topic}</a></>} title={<span class="name">{group}</span>}>
        {loaded.data && <GroupActions group={loaded.data} again={loaded.again} />}
      </Head>
      <Show of={loaded}>
        {(data) => (
          <>
            <Facts
              of={[
                ["State", data.paused_at ? <><Pill state="paused" /> <When at={data.paused_at} /></> : <Pill state="ready" />],
                ["To do", count(data.lag)],
                ["In flight", count(data.in_flight)],
                ["Retrying", count(data.retrying)],
                ["Heard of", <When at={data.seen_at} />],
              ]}
            />
            <Card title="What messages wait for">
              {Object.values(data.waiting ?? {}).some((amount) => amount > 0) ? (
                <Facts of={Object.entries(data.waiting ?? {}).filter(([, amount]) => amount > 0).map(([reason, amount]) => [
                  words(reason),
                  <>
                    <a href={link(["messages"], { topic, state: reason })}>{count(amount)}</a> <span class="dim">{WHY[reason]}</span>
                  </>,
                ])} />
              ) : (
                <Empty>Nothing waits.</Empty>
              )}
            </Card>
            <Leases topic={topic} of={data} />
            <Card title="Workers" flush>
              <Table
                label="Workers"
                rows={data.members ?? []}
                id={(row) => `${row.owner} ${row.kind}`}
                empty="No worker is connected."
                columns={[
                  { name: "Owner", cell: (row) => row.owner },
                  { name: "By", cell: (row) => row.kind },
                  { name: "In flight", cell: (row) => count(row.in_flight), number: true },
                ]}
              />
            </Card>
            <Card title="Partitions" flush>
              <Table
                label="Partitions"
                rows={data.partitions}
                id={(row) => String(row.partition)}
                empty="none"
                columns={[
                  { name: "Partition", cell: (row) => row.partition },
                  { name: "To do", cell: (row) => count(row.lag), number: true },
                  { name: "In flight", cell: (row) => count(row.in_flight), number: true },
                  { name: "Retrying", cell: (row) => count(row.retrying), number: true },
                  { name: "Done below", cell: (row) => count(row.acked_below), number: true, wide: true },
                ]}
              />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

/** What workers hold, and for how long: what lapses first stands first. */
function Leases({ topic, of }: { topic: string; of: Group }) {
  const now = useNow();
  const leases = of.leases ?? [];
  return (
    <Card title="On loan" note={of.in_flight > leases.length ? `the ${leases.length} that lapse first, of ${count(of.in_flight)}` : undefined} flush>
      <Table
        label="On loan"
        rows={leases}
        id={(row) => `${row.partition}/${row.offset}`}
        to={(row) => link(["messages", topic, row.partition, row.offset])}
        empty="No worker holds a message."
        columns={[
          { name: "Message", cell: (row) => `${row.partition}/${count(row.offset)}` },
          { name: "Holder", cell: (row) => row.owner },
          { name: "Attempt", cell: (row) => row.attempt, number: true },
          { name: "Held for", cell: (row) => duration(now - Date.parse(row.leased_at)), number: true, wide: true },
          { name: "Time left", cell: (row) => <Left from={Date.parse(row.leased_at)} to={Date.parse(row.expires_at)} now={now} /> },
        ]}
      />
    </Card>
  );
}

/** Time that runs out. */
function Left({ from, to, now }: { from: number; to: number; now: number }) {
  const left = Math.max(0, to - now);
  const share = Math.min(1, left / Math.max(1, to - from));
  return (
    <span class="left">
      <span class={share < 0.2 ? "left-bar short" : "left-bar"} aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </span>
      {left > 0 ? duration(left) : "lapses now"}
    </span>
  );
}

function GroupActions({ group, again }: { group: Group; again: () => void }) {
  const may = useMay();
  const [to, setTo] = useState("latest");
  const [offset, setOffset] = useState("");
  if (!may("manage")) return null;
  const at = (verb?: string) => path("topics", group.topic, "groups", group.name) + (verb ? `/${verb}` : "");
  const change = async () => {
    await post(at(group.paused_at ? "resume" : "pause"));
    again();
  };
  const seek = async () => {
    await post(at("seek"), { to: to === "offset" ? { offset: Number(offset) } : to === "time" ? { time: offset } : to });
    again();
  };
  const remove = async () => {
    await call("DELETE", at(), { confirm: group.name });
    go(link(["topics", group.topic]));
  };
  const verb = group.paused_at ? "Resume" : "Pause";
  return (
    <>
      <Opens label={verb}>
        {(close) => <Ask title={<>{verb} the group {group.name}?</>} verb={`${verb} ${group.name}`} act={change} close={close} />}
      </Opens>
      <Opens label="Seek">
        {(close) => (
          <Ask title={<>Move the group {group.name}</>} verb={`Move ${group.name}`} danger act={seek} close={close}>
            <p>What lies before the new position is skipped; what lies behind it is delivered, again if need be.</p>
            <Field label="To" value={to} set={setTo} choices={[["latest", "the end: only what comes from now on"], ["earliest", "the earliest message that is kept"], ["offset", "an offset"], ["time", "a moment"]]} />
            {(to === "offset" || to === "time") && <Field label={to === "offset" ? "Offset" : "Moment"} value={offset} set={setOffset} required placeholder={to === "time" ? "2027-01-01T00:00:00Z" : "0"} />}
          </Ask>
        )}
      </Opens>
      <Opens label="Delete" kind="danger">
        {(close) => (
          <Ask title={<>Delete the group {group.name}?</>} verb={`Delete ${group.name}`} danger confirm={group.name} act={remove} close={close}>
            <p>Its position in {group.topic} is forgotten. A group of this name begins anew.</p>
          </Ask>
        )}
      </Opens>
    </>
  );
}
