// Runs: what belongs together, over time.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { get, pages, path } from "../api";
import { count, duration, words } from "../format";
import { go, link, useLoad, useNow } from "../hooks";
import { Card, Empty, Facts, Field, Head, Pill, Show, Table, When } from "../parts";
import type { Run, RunSummary } from "../types";
import type { PageProps } from ".";

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
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(wanted ? link(["runs", wanted], { tenant: whose }) : link(["runs"], { tenant: whose })))}>
        <Field label="Run" value={wanted} set={setWanted} search hint="Its whole name opens it." />
        <Field label="Tenant" value={whose} set={setWhose} />
        <button class="primary" type="submit">
          Look
        </button>
      </form>
      <Card flush>
        <Show of={loaded}>
          {({ rows, more }) => (
            <Table
              label="Runs"
              rows={rows}
              more={more}
              id={(row) => row.run_id}
              to={(row) => link(["runs", row.run_id], { tenant })}
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
          )}
        </Show>
      </Card>
    </>
  );
}

interface Bar {
  kind: "wait" | "work" | "retry" | "effect" | "held";
  from: number;
  to: number;
  words: string;
}

interface Lane {
  id: string;
  step: string;
  name: ComponentChildren;
  state: string;
  bars: Bar[];
}

/** One lane for each message in each group, and for each effect: what it waited for, and what was worked on it. */
function lanes(run: Run, now: number): Lane[] {
  const found: Lane[] = [];
  for (const step of run.steps) {
    const stepName = step.step_id ?? "";
    for (const message of step.messages) {
      const name = <a href={link(["messages", message.topic, message.partition, message.offset])}>{message.topic} {message.partition}/{count(message.offset)}</a>;
      const stored = Date.parse(message.stored_at);
      const id = `${message.topic}/${message.partition}/${message.offset}`;
      if (message.groups.length === 0) {
        found.push({ id, step: stepName, name, state: "waiting", bars: [{ kind: "wait", from: stored, to: now, words: "waits for a group" }] });
      }
      for (const group of message.groups) {
        const bars: Bar[] = [];
        let last = stored;
        for (const attempt of group.history) {
          const [from, to] = [Date.parse(attempt.leased_at), Date.parse(attempt.ended_at)];
          bars.push({ kind: bars.length > 0 ? "retry" : "wait", from: last, to: from, words: bars.length > 0 ? "waited for its next attempt" : "waited for a worker" });
          bars.push({ kind: "work", from, to, words: `attempt ${attempt.attempt} by ${attempt.owner}${attempt.error ? `: ${attempt.error}` : ""}` });
          last = to;
        }
        const leased = group.first_leased_at ? Date.parse(group.first_leased_at) : undefined;
        const end = group.ended_at ? Date.parse(group.ended_at) : now;
        if (group.history.length === 0 && leased !== undefined) {
          bars.push({ kind: "wait", from: stored, to: leased, words: "waited for a worker" });
          bars.push({ kind: "work", from: leased, to: end, words: group.ended_at ? "worked on" : "is being worked on" });
        } else if (!group.ended_at || end > last) {
          bars.push({ kind: group.state === "running" || group.ended_at ? "work" : bars.length > 0 ? "retry" : "wait", from: last, to: end, words: words(group.state) });
        }
        found.push({ id: `${id} ${group.group}`, step: stepName, name: <>{name} <span class="dim">{group.group}</span></>, state: group.state, bars });
      }
    }
    for (const effect of step.effects) {
      const from = Date.parse(effect.begun_at);
      const isOpen = effect.state === "in_progress" || effect.state === "unknown";
      const to = isOpen ? now : Math.max(from, from + 1);
      found.push({
        id: `effect ${effect.scope} ${effect.key}`,
        step: stepName,
        name: <a href={link(["effects", effect.tenant_id || "-", effect.scope, effect.key])}>{effect.scope} · {effect.key}</a>,
        state: effect.state,
        bars: [{ kind: effect.state === "unknown" ? "held" : "effect", from, to, words: `effect, ${words(effect.state)}` }],
      });
    }
  }
  return found;
}

function One({ run, tenant }: { run: string; tenant: string }) {
  const loaded = useLoad(() => get<Run>(path("runs", run), { tenant_id: tenant, limit: 200 }), ["run", run, tenant]);
  return (
    <>
      <Head above={<a href={link(["runs"], { tenant })}>Runs</a>} title={<span class="name">{run}</span>} />
      <Show of={loaded}>
        {(data) => (
          <>
            <Facts
              of={[
                ["State", <Pill state={data.open > 0 ? "running" : "done"} />],
                ["Started", <><When at={data.started_at} /> <span class="dim">{data.started_at}</span></>],
                ["So far", duration(Date.parse(data.last_at) - Date.parse(data.started_at))],
                ["Messages", `${count(data.messages)}, ${count(data.open)} open`],
                ["Effects", count(data.effects)],
                ["Dead letters", count(data.dead_letters)],
                ["Tenant", data.tenant_id],
              ]}
            />
            <Card title="Timeline" flush>
              <Waterfall run={data} />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

function Waterfall({ run }: { run: Run }) {
  const tick = useNow();
  const now = run.open > 0 ? tick : Date.parse(run.last_at);
  const all = lanes(run, now);
  if (all.length === 0) return <Empty>Nothing of it is kept any more.</Empty>;
  const start = Math.min(...all.flatMap((lane) => lane.bars.map((bar) => bar.from)));
  const end = Math.max(start + 1, ...all.flatMap((lane) => lane.bars.map((bar) => bar.to)));
  const percent = (moment: number) => `${(Math.max(0, moment - start) / (end - start)) * 100}%`;
  const width = (bar: Bar) => `max(2px, ${(Math.max(0, bar.to - bar.from) / (end - start)) * 100}%)`;
  return (
    <div class="waterfall" role="table" aria-label="Timeline">
      <div class="lane scale" role="row">
        <span role="columnheader">Step</span>
        <span role="columnheader" class="ends">
          <span>0</span>
          <span class="key"><i class="bar wait" /> waits <i class="bar retry" /> backs off <i class="bar work" /> works <i class="bar effect" /> effect <i class="bar held" /> unknown</span>
          <span>{duration(end - start)}</span>
        </span>
      </div>
      {all.map((lane) => (
        <div class="lane" role="row" key={lane.id}>
          <span role="rowheader" class="lane-name">
            {lane.step && <b>{lane.step} </b>}
            {lane.name} <Pill state={lane.state} />
          </span>
          <span role="cell" class="lane-bars">
            {lane.bars.map((bar, place) => (
              <i key={place} class={`bar ${bar.kind}`} title={`${bar.words}, ${duration(bar.to - bar.from)}`} style={{ left: percent(bar.from), width: width(bar) }} />
            ))}
            <span class="spoken">{lane.bars.map((bar) => `${bar.words}, ${duration(bar.to - bar.from)}`).join("; ")}</span>
          </span>
        </div>
      ))}
    </div>
  );
}
