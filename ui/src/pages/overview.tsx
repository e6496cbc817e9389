// How the server does, and what to do about it.

import { useMemo } from "preact/hooks";

import { get } from "../api";
import { Spark } from "../chart";
import { bytes, count, duration, plural, short } from "../format";
import { link, useLoad } from "../hooks";
import { rates, useLive } from "../live";
import { Card, Head, Pill, Show } from "../parts";
import type { Finding, Report, Sample, Status } from "../types";
import { TopicTable } from "./topics";

const BUSIEST = 8;
const FINDINGS_SHOWN = 8;

/** Where a finding of the server's report leads to. */
function lead(of: Finding): string {
  if (of.area === "dead_letters") return link(of.topic ? ["letters", of.topic] : ["letters"]);
  if (of.area === "effects") return link(["effects"], { state: "unknown" });
  if (of.topic && of.message) return link(["messages", of.topic, ...of.message]);
  if (of.topic && of.group) return link(["topics", of.topic, "groups", of.group]);
  return of.topic ? link(["topics", of.topic]) : "#/server";
}

/** What to do, in the words of the server: those of `driftq report`. */
function Findings({ of }: { of: Report }) {
  const found = of.findings.filter((finding) => finding.verdict !== "ok");
  const fine = of.findings.find((finding) => finding.verdict === "ok" && finding.area === "server");
  if (found.length === 0) {
    return (
      <p class="finding">
        <Pill state="ok" /> <span>nothing to do{fine ? `: ${fine.what}` : ""}</span>
      </p>
    );
  }
  const more = found.length - FINDINGS_SHOWN + of.left_out;
  return (
    <>
      {found.slice(0, FINDINGS_SHOWN).map((finding) => (
        <p class="finding" key={finding.what}>
          <Pill state={finding.verdict} />{" "}
          <span>
            <a href={lead(finding)}>{finding.what}</a>{" "}
            <span class="dim">{finding.cause.split("`").map((part, place) => (place % 2 === 1 ? <code key={place}>{part}</code> : part))}</span>
          </span>
        </p>
      ))}
      {more > 0 && <p class="note">{count(more)} more: <code>driftq report</code> lists them.</p>}
    </>
  );
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
  const report = useLoad(() => get<Report>("/v2/report"), ["report"]);
  const status = useLoad(() => get<Status>("/v2/status"), ["status"]);
  const topics = [...live.topics.values()].filter((topic) => !topic.name.startsWith("dlq."));
  const busiest = [...topics].sort((one, other) => other.lag + other.in_flight - one.lag - one.in_flight).slice(0, BUSIEST);
  return (
    <>
      <Head title="Overview" />
      {live.sample ? (
        <>
          <section class="findings" aria-label="What to do">
            <Show of={report}>{(data) => <Findings of={data} />}</Show>
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
            </p>
          )}
        </Show>
      )}
    </>
  );
}
