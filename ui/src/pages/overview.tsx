// How the server does, and what to do about it.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import { get } from "../api";
import { Spark } from "../chart";
import { bytes, count, duration, plural, short } from "../format";
import { link, useLoad, useNow } from "../hooks";
import { rates, useLive } from "../live";
import { Card, Head, Pill, Show, Trouble, When } from "../parts";
import type { Sample, Status, TopicRow } from "../types";
import { TopicTable } from "./topics";

/** As `driftq report` has it: waiting longer than this in front of readers is worth a look, or more. */
const OLDEST_LOOK_MS = 5 * 60_000;
const OLDEST_ACT_MS = 60 * 60_000;
const BUSIEST = 8;

interface Finding {
  urgency: "ok" | "look" | "act";
  what: ComponentChildren;
  cause: string;
}

function findings(status: Status | undefined, sample: Sample, topics: TopicRow[], now: number): Finding[] {
  const found: Finding[] = [];
  const add = (urgency: Finding["urgency"], what: ComponentChildren, cause: string) => found.push({ urgency, what, cause });
  if (status && !(status.ready && status.writable)) add("act", "The server takes no new messages", status.why ?? "it does not say why");
  if (status && !status.durable) add("look", "Nothing is on disk", "Everything is in memory, and gone when the process ends; fine for tests.");
  if (sample.effects_unknown > 0) {
    add("act", <a href={link(["effects"], { state: "unknown" })}>{plural(sample.effects_unknown, "effect")} of unknown outcome</a>,
      "Somebody has to find out what happened, and say so.");
  }
  if (sample.dead_letters > 0) {
    add("act", <a href="#/letters">{plural(sample.dead_letters, "dead letter")}</a>, "What is dead waits until somebody sends it back.");
  }
  for (const topic of topics) {
    const age = topic.oldest_at ? now - Date.parse(topic.oldest_at) : 0;
    const name = <a href={link(["topics", topic.name])}>{topic.name}</a>;
    if (topic.paused) add("look", <>{name} is paused</>, "Nothing is delivered until it is resumed.");
    else if (topic.lag > 0 && age > OLDEST_LOOK_MS) {
      const who = topic.consumers === 0 ? "and no worker is connected" : `with ${plural(topic.consumers, "worker")} connected`;
      add(age > OLDEST_ACT_MS ? "act" : "look", <>{name}: the oldest message has waited {duration(age)}</>, `${plural(topic.lag, "message")} to do, ${who}.`);
    }
  }
  const rank = { act: 0, look: 1, ok: 2 };
  return found.sort((one, other) => rank[one.urgency] - rank[other.urgency]).slice(0, 8);
}

function Tile(props: { name: string; value: string; note?: string; times: number[]; values: (number | null)[]; to?: string; bad?: boolean }) {
  const words = (
    <>
      <span class="tile-name">{props.name}</span>
      <span class={props.bad ? "tile-value bad" : "tile-value"}>{props.value}</span>
      <span class="tile-note">{props.note ?? "\u00a0"}</span>
    </>
  );
  return (
    <div class="tile">
      {props.to ? <a href={props.to}>{words}</a> : <div>{words}</div>}
      <Spark times={props.times} values={props.values} label={`${props.name} over the last hour`} />
    </div>
  );
}

function Tiles({ past, sample }: { past: Sample[]; sample: Sample }) {
  const times = useMemo(() => past.map((each) => Date.parse(each.at) / 1000), [past]);
  const rate = (of: (sample: Sample) => number) => rates(past, of);
  const last = (values: (number | null)[]) => values.slice(-10).reduce((sum: number, value) => sum + (value ?? 0), 0) / Math.max(1, Math.min(10, values.length));
  const level = (of: (sample: Sample) => number) => past.map(of);
  const produced = rate((each) => each.produced);
  const acked = rate((each) => each.acked);
  const retried = rate((each) => each.redelivered);
  const written = rate((each) => each.written_bytes);
  const oldest = sample.oldest_at ? Date.parse(sample.at) - Date.parse(sample.oldest_at) : 0;
  return (
    <div class="tiles">
      <Tile name="Produced" value={`${short(last(produced))}/s`} note={`${count(sample.produced)} since start`} times={times} values={produced} />
      <Tile name="Done" value={`${short(last(acked))}/s`} note={`${count(sample.acked)} since start`} times={times} values={acked} />
      <Tile name="To do" value={short(sample.lag)} note={sample.lag > 0 && oldest > 0 ? `oldest ${duration(oldest)}` : "nothing waits"} times={times} values={level((each) => each.lag)} to="#/topics" />
      <Tile name="In flight" value={short(sample.in_flight)} note={plural(sample.streams, "stream")} times={times} values={level((each) => each.in_flight)} />
      <Tile name="Retries" value={`${short(last(retried))}/s`} note={`${count(sample.retrying)} wait for theirs`} times={times} values={retried} />
      <Tile name="Dead letters" value={short(sample.dead_letters)} note={`${count(sample.buried)} since start`} times={times} values={level((each) => each.dead_letters)} to="#/letters" bad={sample.dead_letters > 0} />
      <Tile name="Unknown effects" value={short(sample.effects_unknown)} note={`${count(sample.effects_in_progress)} in progress`} times={times} values={level((each) => each.effects_unknown)} to={link(["effects"], { state: "unknown" })} bad={sample.effects_unknown > 0} />
      <Tile name="Written" value={`${bytes(Math.round(last(written)))}/s`} note={`${plural(sample.segments, "segment")} on disk`} times={times} values={written} to="#/server" />
    </div>
  );
}

export function Overview() {
  const live = useLive();
  const now = useNow();
  const status = useLoad(() => get<Status>("/v2/status"), ["status"]);
  const topics = [...live.topics.values()].filter((topic) => !topic.name.startsWith("dlq."));
  const busiest = [...topics].sort((one, other) => other.lag + other.in_flight - one.lag - one.in_flight).slice(0, BUSIEST);
  const found = live.sample ? findings(status.data, live.sample, topics, now) : [];
  return (
    <>
      <Head title="Overview" />
      {live.sample ? (
        <>
          <section class="findings" aria-label="What to do">
            {found.length === 0 ? (
              <p class="finding">
                <Pill state="ok" /> <span>All is well{status.data ? `: the server takes messages, up for ${duration(status.data.uptime_ms)}` : ""}.</span>
              </p>
            ) : (
              found.map((finding, place) => (
                <p class="finding" key={place}>
                  <Pill state={finding.urgency} /> <strong>{finding.what}</strong> <span class="dim">{finding.cause}</span>
                </p>
              ))
            )}
            <Trouble error={status.error} />
          </section>
          <Tiles past={live.past} sample={live.sample} />
          {live.leftOut > 0 && <p class="note">There are more topics than are counted here: {count(live.leftOut)} partitions are left out.</p>}
          <Card title="Busiest topics" note={<a href="#/topics">all {count(live.sample.topics)}</a>} flush>
            <TopicTable rows={busiest} />
          </Card>
        </>
      ) : (
        <Show of={status}>
          {(data) => (
            <p class="note">
              Version {data.version}, up for {duration(data.uptime_ms)}, {plural(data.topics, "topic")}.{" "}
              {live.standing === "off" && "This key is bound to topics or tenants, so the numbers of the whole server are not shown."}
              {live.standing !== "off" && <When at={undefined} />}
            </p>
          )}
        </Show>
      )}
    </>
  );
}
