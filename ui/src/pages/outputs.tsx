// Outputs: where results lie, and which version readers see.

import { useState } from "preact/hooks";

import { call, get, pages, path, post } from "../api";
import { count } from "../format";
import { go, link, useLoad } from "../hooks";
import { Ask, Card, Facts, Field, Filters, Head, Listed, Opens, Pill, Show, Table, When } from "../parts";
import { useMay } from "../session";
import type { Int } from "../types";
import type { PageProps } from ".";

interface Version {
  version: string;
  outputs: number;
  sealed?: boolean;
  updated_at: string;
}

interface Dataset {
  dataset: string;
  current?: string;
  cut_over_at?: string;
  history: { at: string; version?: string }[];
  versions: Version[];
  cursor?: string;
}

interface Output {
  partition_key: string;
  location: string;
  digest: string;
  mode: string;
  committed_at: string;
  message?: { topic: string; partition: number; offset: Int };
}

export function Outputs({ names, query }: PageProps) {
  const [dataset, version] = names;
  const tenant = query.get("tenant") ?? "";
  if (dataset === undefined) return <List tenant={tenant} />;
  return version === undefined ? <One dataset={dataset} tenant={tenant} /> : <OneVersion dataset={dataset} version={version} tenant={tenant} />;
}

function List({ tenant }: { tenant: string }) {
  const [whose, setWhose] = useState(tenant);
  const loaded = useLoad(
    () => pages<{ dataset: string; current?: string; outputs: number; versions: number }, "datasets">("/v2/outputs", "datasets", { tenant_id: tenant }, 500),
    ["datasets", tenant],
  );
  return (
    <>
      <Head title="Outputs" />
      <Filters verb="Look" go={() => go(link(["outputs"], { tenant: whose }))}>
        <Field label="Tenant" value={whose} set={setWhose} search />
      </Filters>
      <Listed
        of={loaded}
        label="Datasets"
        id={(row) => row.dataset}
        to={(row) => link(["outputs", row.dataset], { tenant })}
        empty="There are no outputs. A commit registers them."
        columns={[
          { name: "Dataset", cell: (row) => row.dataset },
          { name: "Readers see", cell: (row) => row.current ?? "nothing yet" },
          { name: "Versions", cell: (row) => count(row.versions), number: true },
          { name: "Outputs", cell: (row) => count(row.outputs), number: true },
        ]}
      />
    </>
  );
}

function One({ dataset, tenant }: { dataset: string; tenant: string }) {
  const may = useMay();
  const loaded = useLoad(() => get<Dataset>(path("outputs", dataset), { tenant_id: tenant }), ["dataset", dataset, tenant]);
  const whose = tenant ? { tenant_id: tenant } : {};
  const act = (verb: string, body: Record<string, unknown>) => async () => {
    await post(`${path("outputs", dataset)}/${verb}`, { ...whose, ...body });
    loaded.again();
  };
  const remove = (version: string) => async () => {
    await call("DELETE", path("outputs", dataset, version), { ...whose, confirm: version });
    loaded.again();
  };
  return (
    <>
      <Head above={<a href={link(["outputs"], { tenant })}>Outputs</a>} title={<span class="name">{dataset}</span>}>
        {may("outputs") && loaded.data?.current && (
          <Opens label="Roll back">
            {(close) => (
              <Ask title={<>Roll {dataset} back from {loaded.data!.current}?</>} verb={`Roll ${dataset} back`} danger act={act("rollback", { from: loaded.data!.current })} close={close}>
                <p>Readers see the version before again, at once.</p>
              </Ask>
            )}
          </Opens>
        )}
      </Head>
      <Show of={loaded}>
        {(data) => (
          <>
            <Facts of={[["Readers see", data.current ?? "nothing yet"], ["Since", data.cut_over_at && <When at={data.cut_over_at} />], ["Before", data.history.length > 0 && data.history.map((past, place) => <span key={place} class="reason">{past.version ?? "nothing"}</span>)]]} />
            <Card title="Versions" flush>
              <Table
                label="Versions"
                rows={data.versions}
                id={(row) => row.version}
                to={(row) => link(["outputs", dataset, row.version], { tenant })}
                empty="There are no versions."
                more={!!data.cursor}
                columns={[
                  { name: "Version", cell: (row) => row.version },
                  { name: "State", cell: (row) => <>{row.version === data.current && <span class="reason">current</span>} {row.sealed && <span class="reason">sealed</span>}</> },
                  { name: "Outputs", cell: (row) => count(row.outputs), number: true },
                  { name: "Changed", cell: (row) => <When at={row.updated_at} />, wide: true },
                  {
                    name: "",
                    cell: (row) =>
                      row.version !== data.current && (
                        <span class="row-actions">
                          {may("outputs") && (
                            <Opens label="Cut over">
                              {(close) => (
                                <Ask title={<>Cut {dataset} over to {row.version}?</>} verb={`Cut over to ${row.version}`} act={act("cutover", { version: row.version, expect: data.current ?? null })} close={close}>
                                  <p>Readers see {row.version} instead of {data.current ?? "nothing"}, all at once. It can be rolled back.</p>
                                </Ask>
                              )}
                            </Opens>
                          )}
                          {may("outputs") && !row.sealed && (
                            <Opens label="Seal">
                              {(close) => <Ask title={<>Seal {row.version} of {dataset}?</>} verb={`Seal ${row.version}`} act={act("seal", { version: row.version })} close={close}><p>Nothing can be added to it any more.</p></Ask>}
                            </Opens>
                          )}
                          {may("manage") && (
                            <Opens label="Delete" kind="danger">
                              {(close) => (
                                <Ask title={<>Delete {row.version} of {dataset}?</>} verb={`Delete ${row.version}`} danger confirm={row.version} act={remove(row.version)} close={close}>
                                  <p>The pointers are gone for good; what they point to stays.</p>
                                </Ask>
                              )}
                            </Opens>
                          )}
                        </span>
                      ),
                  },
                ]}
              />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

function OneVersion({ dataset, version, tenant }: { dataset: string; version: string; tenant: string }) {
  const loaded = useLoad(() => pages<Output, "outputs">(path("outputs", dataset, version), "outputs", { tenant_id: tenant }, 500), ["version", dataset, version, tenant]);
  return (
    <>
      <Head above={<><a href={link(["outputs"], { tenant })}>Outputs</a> / <a href={link(["outputs", dataset], { tenant })}>{dataset}</a></>} title={<span class="name">{version}</span>} />
      <Card flush>
        <Show of={loaded}>
          {({ rows, more }) => (
            <Table
              label="Outputs"
              rows={rows}
              more={more}
              id={(row) => `${row.partition_key} ${row.location}`}
              empty="It is empty."
              columns={[
                { name: "Part", cell: (row) => row.partition_key },
                { name: "Location", cell: (row) => <span class="clip">{row.location}</span> },
                { name: "Digest", cell: (row) => <code class="clip">{row.digest}</code>, wide: true },
                { name: "Mode", cell: (row) => <Pill state={row.mode} />, wide: true },
                { name: "By", cell: (row) => row.message && <a href={link(["messages", row.message.topic, row.message.partition, row.message.offset])}>{row.message.topic} {row.message.partition}/{count(row.message.offset)}</a>, wide: true },
                { name: "Committed", cell: (row) => <When at={row.committed_at} /> },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}
