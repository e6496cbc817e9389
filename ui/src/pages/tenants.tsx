// Tenants: how much each has, and how much it may have.

import { useState } from "preact/hooks";

import { call, pages, path } from "../api";
import { bytes, count, words } from "../format";
import { useLoad } from "../hooks";
import { Ask, Field, Head, Listed, Opens } from "../parts";
import { useMay } from "../session";
import type { Tenant } from "../types";

/** What a tenant has is shown against what it may have. */
const KEPT = ["topics", "messages", "bytes", "effects"] as const;
const PACES: [string, string][] = [
  ["requests_per_second", "Calls in a second"],
  ["bytes_per_second", "Bytes in a second"],
  ["waits", "Calls that wait at a time"],
];
const FIELDS: [string, string][] = [...PACES, ["topics", "Topics"], ["messages", "Messages"], ["bytes", "Bytes of messages"], ["effects", "Effects"]];

export function Tenants() {
  const may = useMay();
  const loaded = useLoad(() => pages<Tenant, "tenants">("/v2/tenants", "tenants", {}, 500), ["tenants"]);
  return (
    <>
      <Head title="Tenants" />
      <Listed
        of={loaded}
        label="Tenants"
        id={(row) => row.tenant}
        empty="No tenant has a topic or a limit."
        columns={[
          { name: "Tenant", cell: (row) => row.tenant || <span class="dim">(none)</span> },
          ...KEPT.map((name, place) => ({ name: words(name).replace(/^./, (first) => first.toUpperCase()), cell: (row: Tenant) => <Used of={row} name={name} />, wide: place > 1 })),
          { name: "Pace", cell: (row) => PACES.filter(([name]) => row.limits[name]).map(([name]) => <span key={name} class="reason">{words(name)} {count(row.limits[name])}</span>), wide: true },
          { name: "", cell: (row) => may("admin") && <span class="row-actions"><Opens label="Limits">{(close) => <Limits of={row} done={loaded.again} close={close} />}</Opens></span> },
        ]}
      />
    </>
  );
}

/** How much of a limit is used up. */
function Used({ of, name }: { of: Tenant; name: (typeof KEPT)[number] }) {
  const show = name === "bytes" ? bytes : count;
  const most = of.limits[name];
  if (!most) return <>{show(of[name])}</>;
  const share = Math.min(1, of[name] / most);
  return (
    <span class="left">
      <span class={share > 0.8 ? "left-bar short" : "left-bar"} aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </span>
      {show(of[name])} of {show(most)}
    </span>
  );
}

function Limits({ of, done, close }: { of: Tenant; done: () => void; close: () => void }) {
  const [asked, setAsked] = useState<Record<string, string>>(() => Object.fromEntries(FIELDS.map(([name]) => [name, String(of.limits[name] ?? "")])));
  const save = async () => {
    const given = Object.entries(asked).filter(([, value]) => value !== "");
    await call("PUT", path("tenants", of.tenant), {}, Object.fromEntries(given.map(([name, value]) => [name, Number(value)])));
    done();
  };
  return (
    <Ask title={<>Limits of {of.tenant}</>} verb={`Limit ${of.tenant}`} act={save} close={close}>
      <p>What is left empty has no limit.</p>
      {FIELDS.map(([name, label]) => (
        <Field key={name} label={label} type="number" value={asked[name] ?? ""} set={(value) => setAsked({ ...asked, [name]: value })} />
      ))}
    </Ask>
  );
}
