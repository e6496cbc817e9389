// The outside world: endpoints, deliveries, exports.

import { useContext, useState } from "preact/hooks";

import { pages, path, post } from "../api";
import { bytes, count, words } from "../format";
import { go, link, useLoad } from "../hooks";
import { Ask, Card, Empty, Facts, Field, Head, Opens, Pill, Show, Table, When } from "../parts";
import { useMay, Who } from "../session";
import type { Delivery, Endpoint, ExportRecord } from "../types";
import type { PageProps } from ".";

export function Endpoints({ names }: PageProps) {
  const loaded = useLoad(() => pages<Endpoint, "endpoints">("/v2/endpoints", "endpoints", {}, 500), ["endpoints"]);
  const wanted = names[0];
  return (
    <>
      <Head title={wanted ? <span class="name">{wanted}</span> : "Endpoints"} {...(wanted && { above: <a href="#/endpoints">Endpoints</a> })} />
      <Show of={loaded}>
        {({ rows, more }) => {
          const one = rows.find((row) => row.name === wanted);
          if (wanted !== undefined) return one ? <One endpoint={one} again={loaded.again} /> : <Empty>There is no such endpoint.</Empty>;
          return (
            <Card flush>
              <Table
                label="Endpoints"
                rows={rows}
                more={more}
                id={(row) => row.name}
                to={(row) => link(["endpoints", row.name])}
                empty="There are no endpoints. `driftq endpoint put` declares one."
                columns={[
                  { name: "Endpoint", cell: (row) => row.name },
                  { name: "State", cell: (row) => <Pill state={row.state} /> },
                  { name: "Kind", cell: (row) => row.spec.kind, wide: true },
                  { name: "URL", cell: (row) => <span class="clip">{row.spec.url}</span> },
                  { name: "Changed", cell: (row) => <When at={row.updated_at} />, wide: true },
                ]}
              />
            </Card>
          );
        }}
      </Show>
    </>
  );
}

function One({ endpoint, again }: { endpoint: Endpoint; again: () => void }) {
  const may = useMay();
  const who = useContext(Who);
  const [reason, setReason] = useState("");
  const isOff = endpoint.state === "disabled";
  const verb = isOff ? "Enable" : "Disable";
  const act = async () => {
    await post(path("endpoints", endpoint.name, isOff ? "enable" : "disable"), { expect_version: endpoint.version, by: who.note ?? who.actor, ...(reason && { reason }) });
    again();
  };
  return (
    <Card title="Endpoint" note={may("manage") && (
      <Opens label={verb} kind={isOff ? "primary" : "danger"}>
        {(close) => (
          <Ask title={<>{verb} {endpoint.name}?</>} verb={`${verb} ${endpoint.name}`} danger={!isOff} act={act} close={close}>
            <p>{isOff ? "What has waited is sent." : "Nothing is sent to it; what comes meanwhile waits."}</p>
            <Field label="Why" value={reason} set={setReason} required={!isOff} />
          </Ask>
        )}
      </Opens>
    )}>
      <Facts
        of={[
          ["State", <Pill state={endpoint.state} />],
          ["Disabled", endpoint.disabled && <><When at={endpoint.disabled.at} /> by {endpoint.disabled.by}: {endpoint.disabled.reason}</>],
          ["Kind", endpoint.spec.kind],
          ["URL", endpoint.spec.url],
          ["Method", endpoint.spec.method],
          ["About", endpoint.spec.description],
          ["Topics", endpoint.spec.topics?.join(", ")],
          ["Version", count(endpoint.version)],
          ["Deliveries", <a href={link(["deliveries"], { endpoint: endpoint.name })}>look</a>],
        ]}
      />
    </Card>
  );
}

export function Deliveries({ query }: PageProps) {
  const endpoint = query.get("endpoint") ?? "";
  const state = query.get("state") ?? "";
  const [wanted, setWanted] = useState(endpoint);
  const [chosen, setChosen] = useState(state);
  const loaded = useLoad(
    async () => (endpoint ? await pages<Delivery, "deliveries">("/v2/deliveries", "deliveries", { endpoint, state }, 200) : undefined),
    ["deliveries", endpoint, state],
  );
  return (
    <>
      <Head title="Deliveries" />
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(link(["deliveries"], { endpoint: wanted, state: chosen })))}>
        <Field label="Endpoint" value={wanted} set={setWanted} required search />
        <Field label="State" value={chosen} set={setChosen} choices={["", "pending", "sending", "retrying", "unknown", "delivered", "failed"].map((each): [string, string] => [each, each || "any"])} />
        <button class="primary" type="submit">
          Look
        </button>
      </form>
      {!endpoint ? (
        <Empty>Say for which <a href="#/endpoints">endpoint</a>.</Empty>
      ) : (
        <Card flush>
          <Show of={loaded}>
            {(data) => (
              <Table
                label="Deliveries"
                rows={data?.rows ?? []}
                more={data?.more ?? false}
                id={(row) => row.delivery_id}
                empty="There are none."
                columns={[
                  { name: "Delivery", cell: (row) => <a class="clip" href={link(["messages", row.message.topic, row.message.partition, row.message.offset])}>{row.delivery_id}</a> },
                  { name: "State", cell: (row) => <Pill state={row.state} /> },
                  { name: "Attempts", cell: (row) => count(row.attempts.length), number: true },
                  { name: "Last", cell: (row) => { const last = row.attempts.at(-1); return last && <span class="clip">{last.status ?? ""} {last.error ?? words(last.outcome)}</span>; } },
                  { name: "Next", cell: (row) => <When at={row.next_at} />, wide: true },
                  { name: "Created", cell: (row) => <When at={row.created_at} />, wide: true },
                ]}
              />
            )}
          </Show>
        </Card>
      )}
    </>
  );
}

export function Exports({ query }: PageProps) {
  const where = query.get("place") ?? "";
  const [wanted, setWanted] = useState(where);
  const loaded = useLoad(
    async () => (where ? await pages<ExportRecord, "exports">("/v2/exports", "exports", { place: where }, 200) : undefined),
    ["exports", where],
  );
  return (
    <>
      <Head title="Exports" />
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(link(["exports"], { place: wanted })))}>
        <Field label="Place" value={wanted} set={setWanted} required search hint="Where exports go, as the connector's file names it." />
        <button class="primary" type="submit">
          Look
        </button>
      </form>
      {!where ? (
        <Empty>Say for which place.</Empty>
      ) : (
        <Card flush>
          <Show of={loaded}>
            {(data) => (
              <Table
                label="Exports"
                rows={data?.rows ?? []}
                more={data?.more ?? false}
                id={(row) => row.export_id}
                empty="There are none."
                columns={[
                  { name: "Export", cell: (row) => row.export_id },
                  { name: "State", cell: (row) => <><Pill state={row.state} /> {row.error && <span class="error">{row.error}</span>}</> },
                  { name: "Rows", cell: (row) => count(row.rows), number: true },
                  { name: "Size", cell: (row) => (row.bytes === undefined ? "–" : bytes(row.bytes)), number: true, wide: true },
                  { name: "Location", cell: (row) => <span class="clip">{row.location}</span>, wide: true },
                  { name: "Created", cell: (row) => <When at={row.created_at} /> },
                ]}
              />
            )}
          </Show>
        </Card>
      )}
    </>
  );
}
