// Commits: what one of them did, by its name.

import { useState } from "preact/hooks";

import { get, path } from "../api";
import { plural, words } from "../format";
import { go, link, useLoad } from "../hooks";
import { Card, Empty, Facts, Field, Filters, Head, Pill, Show, Table } from "../parts";
import type { Int } from "../types";
import type { PageProps } from ".";

interface Found {
  result: string;
  produced: { topic: string; partition: number; offset: Int; duplicate: boolean }[];
  outputs: string[];
}

export function Commits({ names, query }: PageProps) {
  const [key] = names;
  const tenant = query.get("tenant") ?? "";
  const [wanted, setWanted] = useState(key ?? "");
  const [whose, setWhose] = useState(tenant);
  return (
    <>
      <Head title="Commits" />
      <Filters verb="Look" go={() => go(link(wanted ? ["commits", wanted] : ["commits"], { tenant: whose }))}>
        <Field label="Idempotency key" value={wanted} set={setWanted} search hint="As the worker gave it with the commit." />
        <Field label="Tenant" value={whose} set={setWhose} />
      </Filters>
      {key === undefined ? (
        <Empty>A commit that was given an idempotency key is found under it for as long as it is remembered. What it did is also on the pages of its run and its outputs.</Empty>
      ) : (
        <One commit={key} tenant={tenant} />
      )}
    </>
  );
}

function One({ commit, tenant }: { commit: string; tenant: string }) {
  const loaded = useLoad(() => get<Found>(path("commits", commit), { tenant_id: tenant }), ["commit", commit, tenant]);
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <Facts
            of={[
              ["Commit", <span class="name">{commit}</span>],
              ["State", <Pill state="committed" />],
              ["Messages", plural(data.produced.length, "message")],
              ["Outputs", data.outputs.length > 0 ? data.outputs.map((result, place) => <span key={place} class="reason">{words(result)}</span>) : "none"],
            ]}
          />
          <Card title="Messages that it stored" flush>
            <Table
              label="Messages"
              rows={data.produced}
              id={(row) => `${row.topic} ${row.partition}/${row.offset}`}
              to={(row) => link(["messages", row.topic, row.partition, row.offset])}
              empty="It stored none."
              columns={[
                { name: "Message", cell: (row) => `${row.topic} ${row.partition}/${row.offset}` },
                { name: "", cell: (row) => row.duplicate && "was stored before" },
              ]}
            />
          </Card>
        </>
      )}
    </Show>
  );
}
