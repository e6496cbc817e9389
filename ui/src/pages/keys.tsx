// Keys: who may do what.

import { useContext, useState } from "preact/hooks";

import { call, pages, path, post } from "../api";
import { words } from "../format";
import { useLoad } from "../hooks";
import { Ask, Card, Dialog, Empty, Field, Head, Opens, Pill, Show, Table, When } from "../parts";
import { Who } from "../session";
import type { Key } from "../types";

const ACTIONS = ["produce", "consume", "effects", "outputs", "read", "read_payload", "manage", "admin"];
const list = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

export function Keys() {
  const who = useContext(Who);
  const [secret, setSecret] = useState<string>();
  const loaded = useLoad(() => pages<Key, "keys">("/v2/keys", "keys", {}, 500), ["keys"]);
  return (
    <>
      <Head title="Keys">
        {who.keys_required && <Opens label="New key" kind="primary">{(close) => <NewKey close={close} made={(text) => (setSecret(text), loaded.again())} />}</Opens>}
      </Head>
      {!who.keys_required && <Empty>This server asks for no keys: whoever reaches it may do everything. `--keys required` changes that.</Empty>}
      <Card flush>
        <Show of={loaded}>
          {({ rows, more }) => (
            <Table
              label="Keys"
              rows={rows}
              more={more}
              id={(row) => row.id}
              empty="There are no keys besides the root key."
              columns={[
                { name: "Key", cell: (row) => <><code>{row.id}</code> {row.note}</> },
                { name: "State", cell: (row) => <Pill state={row.live ? "ok" : "ended"} /> },
                { name: "Allows", cell: (row) => row.actions.map((action) => <span key={action} class="reason">{words(action)}</span>) },
                { name: "Topics", cell: (row) => <span class="clip">{row.topics?.join(", ") ?? "all"}</span>, wide: true },
                { name: "Tenants", cell: (row) => <span class="clip">{row.tenants?.join(", ") ?? "all"}</span>, wide: true },
                { name: "Ends", cell: (row) => (row.expires_at ? <When at={row.expires_at} /> : "never"), wide: true },
                {
                  name: "",
                  cell: (row) =>
                    row.live && (
                      <span class="row-actions">
                        <Opens label="Rotate">
                          {(close) => (
                            <Ask title={<>Rotate the key {row.id}?</>} verb={`Rotate ${row.id}`} close={close} act={async () => { const made = await post<{ secret: string }>(path("keys", row.id, "rotate")); setSecret(made.secret); loaded.again(); }}>
                              <p>A new key comes in its place; this one goes on for a day.</p>
                            </Ask>
                          )}
                        </Opens>
                        <Opens label="Revoke" kind="danger">
                          {(close) => (
                            <Ask title={<>Revoke the key {row.id}{row.note ? ` (${row.note})` : ""}?</>} verb={`Revoke ${row.id}`} danger close={close} act={async () => { await call("DELETE", path("keys", row.id)); loaded.again(); }}>
                              <p>It opens nothing from now on, nor do the keys that hang on it. Streams that it has open end.</p>
                            </Ask>
                          )}
                        </Opens>
                      </span>
                    ),
                },
              ]}
            />
          )}
        </Show>
      </Card>
      {secret && (
        <Dialog title="The new key" close={() => setSecret(undefined)}>
          <p>It is shown once. Put it where it belongs now.</p>
          <pre tabIndex={0}>{secret}</pre>
          <div class="dialog-end">
            <button type="button" class="primary" onClick={() => setSecret(undefined)}>
              Done
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function NewKey({ close, made }: { close: () => void; made: (secret: string) => void }) {
  const [actions, setActions] = useState(new Set(["read"]));
  const [note, setNote] = useState("");
  const [topics, setTopics] = useState("");
  const [tenants, setTenants] = useState("");
  const create = async () => {
    const key = await post<{ secret: string }>("/v2/keys", {
      actions: ACTIONS.filter((action) => actions.has(action)),
      ...(note && { note }),
      ...(list(topics).length > 0 && { topics: list(topics) }),
      ...(list(tenants).length > 0 && { tenants: list(tenants) }),
    });
    made(key.secret);
  };
  return (
    <Ask title="New key" verb="Make the key" act={create} close={close}>
      <Field label="What it is for" value={note} set={setNote} required />
      <fieldset>
        <legend>It allows</legend>
        {ACTIONS.map((action) => (
          <label key={action} class="tick">
            <input
              type="checkbox"
              checked={actions.has(action)}
              onChange={(event) => {
                const next = new Set(actions);
                if (event.currentTarget.checked) next.add(action);
                else next.delete(action);
                setActions(next);
              }}
            />
            {words(action)}
          </label>
        ))}
      </fieldset>
      <Field label="Topics" value={topics} set={setTopics} placeholder="orders mail.*" hint="Empty: all of them." />
      <Field label="Tenants" value={tenants} set={setTenants} hint="Empty: all of them." />
    </Ask>
  );
}
