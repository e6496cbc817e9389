// Work that goes on in the server.

import { useState } from "preact/hooks";

import { call, get, path, post } from "../api";
import { count, plural } from "../format";
import { useLoad } from "../hooks";
import { Ask, Card, Empty, Field, Head, Opens, Pill, Show, Table, When } from "../parts";
import { useMay } from "../session";
import type { Job } from "../types";

export function Jobs() {
  const loaded = useLoad(async () => (await get<{ jobs: Job[] }>("/v2/jobs")).jobs, ["jobs"]);
  return (
    <>
      <Head title="Jobs" />
      <Card flush>
        <Show of={loaded}>{(rows) => <JobTable rows={rows} again={loaded.again} />}</Show>
      </Card>
    </>
  );
}

export function JobTable({ rows, again }: { rows: Job[]; again: () => void }) {
  const may = useMay();
  const sorted = [...rows].sort((one, other) => other.started_at.localeCompare(one.started_at));
  return (
    <Table
      label="Jobs"
      rows={sorted}
      id={(row) => row.id}
      empty="No job runs, and none has run since the server was started."
      columns={[
        { name: "Job", cell: (row) => <>{row.kind} <b>{row.topic}</b> {row.dry_run && <span class="reason">dry run</span>}</> },
        { name: "State", cell: (row) => <><Pill state={row.state} /> {row.error && <span class="error">{row.error}</span>}</> },
        { name: "Progress", cell: (row) => <Progress of={row} /> },
        { name: "Refused", cell: (row) => count(row.refused + row.failed), number: true, wide: true },
        { name: "Started", cell: (row) => <When at={row.started_at} />, wide: true },
        {
          name: "",
          cell: (row) =>
            row.state === "running" && may("manage") && (
              <Opens label="Stop">
                {(close) => (
                  <Ask title={<>Stop the {row.kind} of {row.topic}?</>} verb="Stop the job" danger close={close} act={async () => { await call("DELETE", path("jobs", row.id)); again(); }}>
                    <p>What it has done stays done.</p>
                  </Ask>
                )}
              </Opens>
            ),
        },
      ]}
    />
  );
}

export function Progress({ of }: { of: Job }) {
  const seen = of.done + of.failed + of.refused + of.skipped;
  return (
    <span class="progress">
      <progress max={Math.max(1, of.matched)} value={of.state === "done" ? Math.max(1, of.matched) : seen} aria-label={`${of.kind} of ${of.topic}`} />
      <span>
        {of.dry_run ? `${count(of.matched)} would be` : `${count(of.done)} of ${count(of.matched)}`}
      </span>
    </span>
  );
}

export interface Selected {
  /** In words. */
  what: string;
  /** As the API takes it. */
  of: { all: true } | { letters: { partition: number; offset: unknown }[] } | { filter: Record<string, unknown> };
}

/** Asks for a job over dead letters: first what it would do, then that it does it. */
export function LettersJob(props: { kind: "redrive" | "purge"; topic: string; selected: Selected; started: (job: Job) => void; close: () => void }) {
  const [rate, setRate] = useState("");
  const [target, setTarget] = useState("");
  const [tried, setTried] = useState<Job>();
  const body = (dryRun: boolean) => ({
    ...props.selected.of,
    dry_run: dryRun,
    ...(props.kind === "redrive" && rate && { rate_per_second: Number(rate) }),
    ...(props.kind === "redrive" && target && { target_topic: target }),
  });
  const where = path("dlq", props.topic, props.kind);
  const tryIt = async () => {
    let job = await post<Job>(where, body(true));
    for (let turn = 0; job.state === "running" && turn < 50; turn += 1) {
      await new Promise((wake) => setTimeout(wake, 100));
      job = await get<Job>(path("jobs", job.id));
    }
    setTried(job);
  };
  const verb = props.kind === "redrive" ? "Send back" : "Throw away";
  return (
    <Ask
      title={<>{verb} {props.selected.what} of {props.topic}?</>}
      verb={`${verb} ${props.selected.what} of ${props.topic}`}
      danger={props.kind === "purge"}
      {...(props.kind === "purge" && { confirm: props.topic })}
      close={props.close}
      act={async () => props.started(await post<Job>(where, body(false)))}
    >
      <p>
        {props.kind === "redrive"
          ? "They go back to their topic as new messages with fresh attempts. Effects that have happened are replayed, not repeated."
          : "They are gone for good."}
      </p>
      {props.kind === "redrive" && (
        <>
          <Field label="At most so many in a second" type="number" value={rate} set={setRate} hint="Empty: as fast as it goes." />
          <Field label="To another topic" value={target} set={setTarget} hint="Empty: to where they came from." />
        </>
      )}
      <p class="dry">
        <button type="button" onClick={() => void tryIt()}>
          Dry run
        </button>
        {tried ? <span role="status">{plural(tried.matched, "letter")} would be {props.kind === "redrive" ? "sent back" : "thrown away"}.</span> : <Empty>Shows how many it would be.</Empty>}
      </p>
    </Ask>
  );
}
