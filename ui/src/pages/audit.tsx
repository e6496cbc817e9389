// The audit: who did what.

import { useState } from "preact/hooks";

import { get } from "../api";
import { words } from "../format";
import { go, link, useLoad } from "../hooks";
import { Card, Field, Head, Pill, Show, Table, When } from "../parts";
import type { AuditEntry } from "../types";
import type { PageProps } from ".";

const PAGE = 200;

interface Answer {
  entries: AuditEntry[];
  seen: number;
  oldest: number;
  more: boolean;
}

export function Audit({ query }: PageProps) {
  const given = Object.fromEntries(query);
  const [asked, setAsked] = useState<Record<string, string>>(given);
  const set = (name: string) => (value: string) => setAsked({ ...asked, [name]: value });
  const loaded = useLoad(async () => {
    // Entries come oldest first: the newest are found from the end.
    const end = await get<Answer>("/v2/audit", { limit: 1 });
    const newest = await newestOf(end.seen);
    const after = Object.keys(given).length > 0 ? 0 : Math.max(0, newest - PAGE);
    const entries: AuditEntry[] = [];
    let from = after;
    for (let page = 0; page < 20; page += 1) {
      const answer = await get<Answer>("/v2/audit", { ...given, after: from, limit: PAGE });
      entries.push(...answer.entries);
      if (!answer.more) break;
      from = answer.seen;
    }
    return entries.reverse().slice(0, PAGE);
  }, ["audit", given]);
  return (
    <>
      <Head title="Audit" />
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(link(["audit"], asked)))}>
        <Field label="Who" value={asked.actor ?? ""} set={set("actor")} placeholder="key:5f0c*" search />
        <Field label="Action" value={asked.action ?? ""} set={set("action")} placeholder="delete_topic" />
        <Field label="Target" value={asked.target ?? ""} set={set("target")} placeholder="topics/orders*" />
        <Field label="Outcome" value={asked.outcome ?? ""} set={set("outcome")} placeholder="done" />
        <button class="primary" type="submit">
          Filter
        </button>
      </form>
      <Card flush>
        <Show of={loaded}>
          {(rows) => (
            <Table
              label="Audit"
              rows={rows}
              id={(row) => String(row.sequence)}
              empty="Nothing was written down yet."
              columns={[
                { name: "When", cell: (row) => <When at={row.at} /> },
                { name: "Who", cell: (row) => <><code>{row.actor}</code> {row.note}</> },
                { name: "Did", cell: (row) => words(row.action) },
                { name: "To", cell: (row) => <span class="clip">{row.target}</span> },
                { name: "Outcome", cell: (row) => <Pill state={row.outcome} />, wide: true },
                { name: "Detail", cell: (row) => <span class="clip">{row.detail}</span>, wide: true },
                { name: "From", cell: (row) => row.from, wide: true },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

/** The number of the newest entry: nothing beyond it is found, and the answer says how far was looked. */
async function newestOf(least: number): Promise<number> {
  const answer = await get<Answer>("/v2/audit", { action: "no such action", after: least, limit: 1 });
  return Math.max(least, answer.seen);
}
