// Runs: what belongs together, over time.

import { useState } from "preact/hooks";

import { get, pages, path } from "../api";
import { count, duration } from "../format";
import { go, link, useLoad, useNow } from "../hooks";
import { Card, Facts, Field, Filters, Head, Listed, Pill, Show, When } from "../parts";
import { Graph } from "../runs/graph";
import { joined, stateOf, stepLanes } from "../runs/lanes";
import { Waterfall } from "../runs/waterfall";
import type { Run, RunSummary } from "../types";
import type { PageProps } from ".";

/** Messages and effects that one call brings, and calls that a page makes. */
const PAGE = 200;
const PAGES_MAX = 3;

export function Runs({ names, query }: PageProps) {
  const [run] = names;
  const tenant = query.get("tenant") ?? "";
  return run === undefined ? <List tenant={tenant} /> : <One run={run} tenant={tenant} />;
}

function List({ tenant }: { tenant: string }) {
  const [whose, setWhose] = useState(tenant);
  const [wanted, setWanted] = useState("");
  const loaded = useLoad(() => pages<RunSummary, "runs">("/v2/runs", "runs", { tenant_id: tenant }, 300), ["runs", tenant]);
  return (
    <>
      <Head title="Runs" />
      <Filters verb="Look" go={() => go(link(wanted ? ["runs", wanted] : ["runs"], { tenant: whose }))}>
        <Field label="Run" value={wanted} set={setWanted} search hint="Its whole name opens it." />
        <Field label="Tenant" value={whose} set={setWhose} />
      </Filters>
      <Listed
        of={loaded}
        label="Runs"
        id={(row) => row.run_id}
        to={(row) => link(["runs", row.run_id], { tenant: row.tenant_id })}
        empty="There are no runs. A message with a run_id begins one."
        columns={[
          { name: "Run", cell: (row) => row.run_id },
          { name: "State", cell: (row) => <Pill state={row.open > 0 ? "running" : row.dead_letters > 0 ? "dead_lettered" : "done"} /> },
          { name: "Open", cell: (row) => count(row.open), number: true },
          { name: "Messages", cell: (row) => count(row.messages), number: true, wide: true },
          { name: "Effects", cell: (row) => count(row.effects), number: true, wide: true },
          { name: "Dead", cell: (row) => count(row.dead_letters), number: true, wide: true },
          { name: "Took", cell: (row) => duration(Date.parse(row.last_at) - Date.parse(row.started_at)), number: true, wide: true },
          { name: "Started", cell: (row) => <When at={row.started_at} /> },
        ]}
      />
    </>
  );
}

async function load(run: string, tenant: string): Promise<Run & { isCut: boolean }> {
  const parts: Run[] = [];
  let cursor: string | undefined;
  do {
    const part = await get<Run>(path("runs", run), { tenant_id: tenant, limit: PAGE, cursor });
    parts.push(part);
    cursor = part.cursor ?? undefined;
  } while (cursor && parts.length < PAGES_MAX);
  return { ...joined(parts), isCut: cursor !== undefined };
}

function One({ run, tenant }: { run: string; tenant: string }) {
  const loaded = useLoad(() => load(run, tenant), ["run", run, tenant]);
  return (
    <>
      <Head above={<a href={link(["runs"], { tenant })}>Runs</a>} title={<span class="name">{run}</span>} />
      <Show of={loaded}>{(data) => <Told run={data} />}</Show>
    </>
  );
}

function Told({ run }: { run: Run & { isCut: boolean } }) {
  const tick = useNow();
  const isHeld = run.steps.some((step) => step.effects.some((effect) => effect.state === "in_progress" || effect.state === "unknown"));
  const isOpen = run.open > 0 || isHeld;
  // What is over does not move: it is told up to its last moment.
  const now = isOpen ? tick : Date.parse(run.last_at);
  const steps = stepLanes(run, now);
  return (
    <>
      <Facts
        of={[
          ["State", <Pill state={run.open > 0 ? "running" : isHeld ? stateOf(steps.flatMap((step) => step.lanes)) : run.dead_letters > 0 ? "dead_lettered" : "done"} />],
          ["Started", <><When at={run.started_at} /> <span class="dim">{run.started_at}</span></>],
          ["So far", duration(now - Date.parse(run.started_at))],
          ["Messages", `${count(run.messages)}, ${count(run.open)} open`],
          ["Effects", count(run.effects)],
          ["Dead letters", run.dead_letters > 0 && count(run.dead_letters)],
          ["Tenant", run.tenant_id],
          ["Not listed", run.unlisted > 0 && `${count(run.unlisted)}: a run lists only so many`],
        ]}
      />
      {run.isCut && <p class="note">Only the first {count(PAGE * PAGES_MAX)} messages and effects are shown.</p>}
      <Card title="Steps" flush>
        <Graph steps={steps} />
      </Card>
      <Card title="Timeline" note="press a lane to see what each stretch was for" flush>
        <Waterfall steps={steps} now={now} isOpen={isOpen} />
      </Card>
    </>
  );
}
