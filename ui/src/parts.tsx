// The pieces that pages are put together from.

import { Fragment, type ComponentChildren, type TargetedEvent } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { isAway, Problem } from "./api";
import { ago, count, words } from "./format";
import { type Loaded, useNow } from "./hooks";
import { Exact, type Json, parse } from "./json";

export function Head(props: { title: ComponentChildren; above?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="head">
      <div class="head-words">
        {props.above && <p class="above">{props.above}</p>}
        <h1 tabIndex={-1}>{props.title}</h1>
      </div>
      {props.children && <div class="actions">{props.children}</div>}
    </header>
  );
}

export function Card(props: { title?: ComponentChildren; note?: ComponentChildren; children: ComponentChildren; flush?: boolean }) {
  return (
    <section class={props.flush ? "card flush" : "card"}>
      {props.title && (
        <div class="card-head">
          <h2>{props.title}</h2>
          {props.note && <span class="note">{props.note}</span>}
        </div>
      )}
      {props.children}
    </section>
  );
}

export function Trouble({ error }: { error: unknown }) {
  if (!error) return null;
  const problem = error instanceof Problem ? error : undefined;
  return (
    <div class={isAway(error) ? "trouble away" : "trouble"} role="alert">
      <strong>{error instanceof Error ? error.message : "something went wrong"}</strong>
      {problem?.code && problem.status > 0 && <code>{problem.code}</code>}
      {problem?.help && <span>{problem.help}</span>}
    </div>
  );
}

/** What was loaded, or why not, or that it is on its way. */
export function Show<T>(props: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, error } = props.of;
  return (
    <>
      <Trouble error={error} />
      {data !== undefined ? props.children(data) : !error && <p class="loading" aria-live="polite">Loading…</p>}
    </>
  );
}

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

const KINDS: Record<string, string> = {
  unknown: "bad", failed: "bad", failed_final: "bad", dead_lettered: "bad", disabled: "bad", lost: "bad", act: "bad",
  backoff: "warn", retrying: "warn", failed_retryable: "warn", paused: "warn", dying: "warn", key_busy: "warn",
  window_full: "warn", same_key_running: "warn", effect: "warn", cancelled: "warn", look: "warn", refused: "bad",
  in_flight: "busy", running: "busy", in_progress: "busy", sending: "busy", scheduled: "busy", pending: "busy",
  committed: "good", done: "good", succeeded: "good", delivered: "good", ready: "good", enabled: "good", ok: "good", open: "good",
};

export const Pill = ({ state }: { state: string }) => (
  <span class={`pill ${KINDS[state] ?? "plain"}`}>{words(state)}</span>
);

export function When({ at }: { at: string | undefined | null }) {
  const now = useNow();
  if (!at) return <span class="dim">–</span>;
  return (
    <time dateTime={at} title={at}>
      {ago(at, now)}
    </time>
  );
}

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand to the right. */
  number?: boolean;
  /** Left out on a phone. */
  wide?: boolean;
}

const ROWS_SHOWN = 200;

interface TableProps<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  to?: (row: T) => string;
  empty: ComponentChildren;
  more?: boolean;
  selected?: Set<string>;
  select?: (ids: Set<string>) => void;
}

/** Rows that were loaded, in a card of their own. */
export function Listed<T>(props: { of: Loaded<{ rows: T[]; more: boolean }>; title?: ComponentChildren } & Omit<TableProps<T>, "rows" | "more">) {
  const { of, title, ...table } = props;
  return (
    <Card {...(title !== undefined && { title })} flush>
      <Show of={of}>{({ rows, more }) => <Table {...table} rows={rows} more={more} />}</Show>
    </Card>
  );
}

/** Fields that narrow what a page shows, and a button that does. */
export function Filters(props: { verb: string; go: () => void; children: ComponentChildren }) {
  return (
    <form class="filters" onSubmit={(event) => (event.preventDefault(), props.go())}>
      {props.children}
      <button class="primary" type="submit">
        {props.verb}
      </button>
    </form>
  );
}

/** Rows that j and k go through. */
export function Table<T>(props: TableProps<T>) {
  const [shown, setShown] = useState(ROWS_SHOWN);
  const { rows, columns, selected, select } = props;
  if (rows.length === 0) return <Empty>{props.empty}</Empty>;
  const toggle = (id: string, on: boolean) => {
    const next = new Set(selected);
    if (on) next.add(id);
    else next.delete(id);
    select?.(next);
  };
  return (
    <div class="scroll" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {select && (
              <th class="check">
                <input
                  type="checkbox"
                  aria-label="Select all"
                  checked={selected?.size === rows.length}
                  onChange={(event) => select(event.currentTarget.checked ? new Set(rows.map(props.id)) : new Set())}
                />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classes(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row) => {
            const id = props.id(row);
            return (
              <tr key={id} class={selected?.has(id) ? "selected" : ""}>
                {select && (
                  <td class="check">
                    <input
                      type="checkbox"
                      aria-label={`Select ${id}`}
                      checked={selected?.has(id) ?? false}
                      onChange={(event) => toggle(id, event.currentTarget.checked)}
                    />
                  </td>
                )}
                {columns.map((column, place) => (
                  <td key={column.name} class={classes(column)}>
                    {place === 0 && props.to ? (
                      <a class="row-link" href={props.to(row)}>
                        {column.cell(row)}
                      </a>
                    ) : (
                      column.cell(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {(rows.length > shown || props.more) && (
        <p class="table-end">
          {rows.length > shown ? (
            <button type="button" onClick={() => setShown(shown + ROWS_SHOWN)}>
              Show more of {count(rows.length)}
            </button>
          ) : (
            "There are more: narrow the search to see them."
          )}
        </p>
      )}
    </div>
  );
}

const classes = (column: { number?: boolean; wide?: boolean }): string =>
  [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim();

/** Names and what they stand for. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false)
        .map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
    </dl>
  );
}

export function Field(props: {
  label: string;
  value: string;
  set: (value: string) => void;
  hint?: string;
  required?: boolean;
  type?: "text" | "number" | "password";
  placeholder?: string;
  lines?: number;
  choices?: [string, string][];
  search?: boolean;
}) {
  const id = useId();
  const common = {
    id,
    value: props.value,
    required: props.required ?? false,
    placeholder: props.placeholder ?? "",
    "aria-describedby": props.hint ? `${id}-hint` : undefined,
    autocomplete: "off",
    spellcheck: false,
  };
  const set = (event: TargetedEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) =>
    props.set(event.currentTarget.value);
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.choices ? (
        <select id={id} value={props.value} onChange={set}>
          {props.choices.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      ) : props.lines ? (
        <textarea {...common} rows={props.lines} onInput={set} />
      ) : (
        <input {...common} type={(props.type ?? "text") as "text"} data-search={props.search ? "" : undefined} onInput={set} />
      )}
      {props.hint && (
        <span class="hint" id={`${id}-hint`}>
          {props.hint}
        </span>
      )}
    </div>
  );
}

/** A box that waits for an answer; the rest of the page is out of reach meanwhile. */
export function Dialog(props: { title: ComponentChildren; close: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} onCancel={(event) => (event.preventDefault(), props.close())}>
      <h2 id={id}>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** A form in a box. It stays open with the refusal if the server says no. */
export function Ask(props: {
  title: ComponentChildren;
  verb: string;
  danger?: boolean;
  /** What has to be typed before it can be done. */
  confirm?: string;
  act: () => Promise<unknown>;
  close: () => void;
  children?: ComponentChildren;
}) {
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await props.act();
      props.close();
    } catch (refused) {
      setError(refused);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} close={props.close}>
      <form onSubmit={(event) => void submit(event)}>
        {props.children}
        {props.confirm && (
          <Field label={`Type ${props.confirm} to confirm`} value={typed} set={setTyped} required />
        )}
        <Trouble error={error} />
        <div class="dialog-end">
          <button type="button" onClick={props.close}>
            Leave it
          </button>
          <button
            type="submit"
            class={props.danger ? "danger" : "primary"}
            disabled={isBusy || (props.confirm !== undefined && typed !== props.confirm)}
          >
            {props.verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A button that opens a box. */
export function Opens(props: {
  label: ComponentChildren;
  kind?: string;
  disabled?: boolean;
  children: (close: () => void) => ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={props.kind ?? ""} disabled={props.disabled ?? false} onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {isOpen && props.children(() => setOpen(false))}
    </>
  );
}

const VALUE_CHARS_MAX = 64 * 1024;
const CHILDREN_MAX = 100;

/** A payload: as a tree if it is JSON, as it is, or as bytes. Markup in it is text like any other. */
export function Value(props: { text: string | undefined; base64?: string | undefined; hidden?: boolean | undefined }) {
  const [view, setView] = useState("");
  if (props.hidden) return <Empty>This key may not see payloads.</Empty>;
  const raw = props.text ?? "";
  const cut = raw.slice(0, VALUE_CHARS_MAX);
  const tree = props.base64 === undefined && raw.length <= VALUE_CHARS_MAX ? readable(raw) : undefined;
  const bytes = () => (props.base64 === undefined ? new TextEncoder().encode(cut) : decoded(props.base64));
  const views = [...(tree === undefined ? [] : ["tree"]), ...(props.base64 === undefined ? ["text"] : []), "hex"];
  const chosen = views.includes(view) ? view : views[0];
  const size = props.base64 === undefined ? new TextEncoder().encode(raw).length : (props.base64.length / 4) * 3;
  return (
    <div class="value">
      <div class="tabs" role="group" aria-label="How to show the value">
        {views.map((name) => (
          <button key={name} type="button" aria-pressed={name === chosen} onClick={() => setView(name)}>
            {name}
          </button>
        ))}
        <span class="dim">{count(Math.round(size))} bytes</span>
      </div>
      {chosen === "tree" && tree !== undefined ? (
        <div class="tree">
          <Node value={tree} depth={0} />
        </div>
      ) : (
        <pre tabIndex={0}>{chosen === "hex" ? hex(bytes()) : cut || "(empty)"}</pre>
      )}
      {raw.length > VALUE_CHARS_MAX && <p class="note">Only the first {count(VALUE_CHARS_MAX)} characters are shown.</p>}
    </div>
  );
}

/** Documents only: a text or a number alone reads better as it is. */
function readable(text: string): Json | undefined {
  try {
    const value = parse(text, true);
    return typeof value === "object" && value !== null && !(value instanceof Exact) ? value : undefined;
  } catch {
    return undefined;
  }
}

function Node({ name, value, depth }: { name?: string; value: Json; depth: number }) {
  const [shown, setShown] = useState(CHILDREN_MAX);
  const label = name !== undefined && <span class="name">{name}: </span>;
  if (value === null || typeof value !== "object" || value instanceof Exact) {
    const kind = value === null ? "null" : value instanceof Exact ? "number" : typeof value;
    const text = typeof value === "string" ? JSON.stringify(value) : String(value);
    return (
      <div class="leaf">
        {label}
        <span class={`is-${kind}`}>{text}</span>
      </div>
    );
  }
  const children: [string, Json][] = Array.isArray(value)
    ? value.map((child, place) => [String(place), child])
    : Object.entries(value);
  return (
    <details open={depth < 3}>
      <summary>
        {label}
        <span class="dim">{Array.isArray(value) ? `[${children.length}]` : `{${children.length}}`}</span>
      </summary>
      {children.slice(0, shown).map(([child, inner]) => (
        <Node key={child} name={child} value={inner} depth={depth + 1} />
      ))}
      {children.length > shown && (
        <button type="button" onClick={() => setShown(shown + CHILDREN_MAX)}>
          {count(children.length - shown)} more
        </button>
      )}
    </details>
  );
}

function decoded(base64: string): Uint8Array {
  const text = atob(base64.slice(0, VALUE_CHARS_MAX));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function hex(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, 4096); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${text}`);
  }
  if (bytes.length > 4096) lines.push(`… of ${bytes.length} bytes, the first 4096`);
  return lines.join("\n") || "(empty)";
}
