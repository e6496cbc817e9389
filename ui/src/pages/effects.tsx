// Effects: what ran, what is held, and what nobody knows.

import { useContext, useState } from "preact/hooks";

import { pages, post } from "../api";
import { count, words } from "../format";
import { go, link, useLoad } from "../hooks";
import { Ask, Card, Facts, Field, Head, Opens, Pill, Show, Table, Value, When } from "../parts";
import { useMay, Who } from "../session";
import type { Effect } from "../types";
import type { PageProps } from ".";

const STATES = ["unknown", "in_progress", "failed_retryable", "failed_final", "succeeded", ""];
const EFFECTS_MAX = 300;

const id = (effect: Effect): string => JSON.stringify([effect.tenant_id, effect.scope, effect.key]);

export function Effects({ names, query }: PageProps) {
  const [tenant, scope, key] = names;
  if (scope !== undefined && key !== undefined) return <One tenant={tenant === "-" ? "" : (tenant ?? "")} scope={scope} name={key} />;
  return <List query={query} />;
}

const toEffect = (effect: Effect): string => link(["effects", effect.tenant_id || "-", effect.scope, effect.key]);

function List({ query }: { query: URLSearchParams }) {
  const chosen = query.get("state") ?? "unknown";
  const state = chosen === "any" ? "" : chosen;
  const scope = query.get("scope") ?? "";
  const tenant = query.get("tenant_id") ?? "";
  const [wanted, setWanted] = useState(scope);
  const [whose, setWhose] = useState(tenant);
  const loaded = useLoad(() => pages<Effect, "effects">("/v2/effects", "effects", { state, scope, tenant_id: tenant }, EFFECTS_MAX), ["effects", state, scope, tenant]);
  return (
    <>
      <Head title="Effects" />
      <div class="tabs" role="group" aria-label="State">
        {STATES.map((each) => (
          <a key={each} class="tab" aria-current={each === state ? "true" : undefined} href={link(["effects"], { state: each || "any", scope, tenant_id: tenant })}>
            {each ? words(each) : "all"}
          </a>
        ))}
      </div>
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(link(["effects"], { state: chosen, scope: wanted, tenant_id: whose })))}>
        <Field label="Scope" value={wanted} set={setWanted} search />
        <Field label="Tenant" value={whose} set={setWhose} />
        <button class="primary" type="submit">
          Filter
        </button>
      </form>
      <Card
        title={state === "unknown" ? "To find out" : words(state || "all")}
        note={state === "unknown" ? "Their workers were lost between beginning and end. Look at the other side, then say what happened." : undefined}
        flush
      >
        <Show of={loaded}>
          {({ rows, more }) => (
            <Table
              label="Effects"
              rows={rows}
              more={more}
              id={id}
              to={toEffect}
              empty={state === "unknown" ? "Nothing is unknown." : "There are none."}
              columns={[
                { name: "Effect", cell: (row) => <span class="clip">{row.scope} · {row.key}</span> },
                { name: "State", cell: (row) => <Pill state={row.state} /> },
                { name: "Attempt", cell: (row) => `${row.attempt}${row.max_attempts ? ` of ${row.max_attempts}` : ""}`, number: true, wide: true },
                { name: "Worker", cell: (row) => <span class="clip">{row.owner}</span>, wide: true },
                { name: "Run", cell: (row) => row.run_id && <a class="clip" href={link(["runs", row.run_id], { tenant: row.tenant_id })}>{row.run_id}</a>, wide: true },
                { name: "Begun", cell: (row) => <When at={row.begun_at} /> },
                { name: "", cell: (row) => row.state === "unknown" && <Resolve effect={row} done={loaded.again} /> },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

function One({ tenant, scope, name }: { tenant: string; scope: string; name: string }) {
  const loaded = useLoad(() => post<Effect>("/v2/effects/get", { scope, key: name, ...(tenant && { tenant_id: tenant }) }), ["effect", tenant, scope, name]);
  return (
    <>
      <Head above={<a href="#/effects">Effects</a>} title={<span class="name">{scope} · {name}</span>}>
        {loaded.data?.state === "unknown" && <Resolve effect={loaded.data} done={loaded.again} />}
      </Head>
      <Show of={loaded}>
        {(data) => {
          const outcome = data.outcome ?? data.last_outcome;
          return (
            <>
              <Card title="Evidence">
                <Facts
                  of={[
                    ["State", <><Pill state={data.state} />{data.unknown_since && <> since <When at={data.unknown_since} /></>}</>],
                    ["If its worker is lost", data.on_lapse === "hold" ? "it is held until somebody knows" : "it is run again"],
                    ["Attempt", `${count(data.attempt)}${data.max_attempts ? ` of ${count(data.max_attempts)}` : ""}, epoch ${count(data.epoch)}`],
                    ["Worker", data.owner],
                    ["Begun", <><When at={data.begun_at} /> <span class="dim">{data.begun_at}</span></>],
                    ["Lease", data.lease_expires_at && <><When at={data.lease_expires_at} /> {data.lease_live ? "" : <span class="dim">lapsed</span>}</>],
                    ["First seen", <When at={data.created_at} />],
                    ["Record ends", data.expires_at && <When at={data.expires_at} />],
                    ["Request hash", data.request_hash && <code>{data.request_hash}</code>],
                    ["Message", data.message && <a href={link(["messages", data.message.topic, data.message.partition, data.message.offset])}>{data.message.topic} {data.message.partition}/{count(data.message.offset)}</a>],
                    ["Run", data.run_id && <a href={link(["runs", data.run_id], { tenant: data.tenant_id })}>{data.run_id}</a>],
                    ["Step", data.step_id],
                    ["Tenant", data.tenant_id],
                  ]}
                />
              </Card>
              {outcome && (
                <Card title="Outcome" note={data.outcome ? "Whoever begins this effect again gets this as a replay." : "Of the last attempt."}>
                  <Facts
                    of={[
                      ["Code", outcome.code === undefined ? undefined : count(outcome.code)],
                      ["Error", outcome.error && <span class="error">{outcome.error}</span>],
                      ["Resolved by", outcome.resolved_by],
                      ["Because", outcome.resolved_why],
                      ["Headers", outcome.headers && Object.entries(outcome.headers).map(([header, value]) => <span key={header} class="reason">{header}: {value}</span>)],
                    ]}
                  />
                  {(outcome.body !== undefined || outcome.body_b64 !== undefined) && <Value text={outcome.body} base64={outcome.body_b64} />}
                </Card>
              )}
            </>
          );
        }}
      </Show>
    </>
  );
}

function Resolve({ effect, done }: { effect: Effect; done: () => void }) {
  const may = useMay();
  const who = useContext(Who);
  const [status, setStatus] = useState("succeeded");
  const [by, setBy] = useState(who.note ?? "");
  const [why, setWhy] = useState("");
  const [body, setBody] = useState("");
  if (!may("manage")) return null;
  const resolve = async () => {
    await post("/v2/effects/resolve", {
      ...(effect.tenant_id && { tenant_id: effect.tenant_id }),
      scope: effect.scope,
      key: effect.key,
      epoch: effect.epoch,
      status,
      by,
      why,
      ...(body && { body }),
    });
    done();
  };
  return (
    <Opens label="Resolve" kind="primary">
      {(close) => (
        <Ask title={<>What became of {effect.scope} · {effect.key}?</>} verb={`Resolve ${effect.key}`} act={resolve} close={close}>
          <Field
            label="It"
            value={status}
            set={setStatus}
            choices={[
              ["succeeded", "happened: give this outcome to whoever asks again"],
              ["failed_retryable", "did not happen: it may be run again"],
              ["failed_final", "did not happen, and is not to be tried again"],
            ]}
          />
          <Field label="Who says so" value={by} set={setBy} required />
          <Field label="How it is known" value={why} set={setWhy} required lines={2} />
          {status === "succeeded" && <Field label="Result" value={body} set={setBody} lines={3} hint="Replayed to whoever begins the effect again. May be empty." />}
        </Ask>
      )}
    </Opens>
  );
}
