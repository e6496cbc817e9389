// Dead letters, by what killed them.

import { useState } from "preact/hooks";

import { get, pages, path } from "../api";
import { count, plural, words } from "../format";
import { go, link, useLoad } from "../hooks";
import { Card, Empty, Facts, Field, Head, Opens, Pill, Show, Table, Value, When } from "../parts";
import { useMay } from "../session";
import type { Item, Job } from "../types";
import type { PageProps } from ".";
import { JobTable, LettersJob, type Selected } from "./jobs";
import { Attempts, envelope } from "./messages";

const LETTERS_MAX = 500;

interface DeadTopic {
  name: string;
  letters: number;
  oldest_at?: string;
}

export function Letters({ names, query }: PageProps) {
  const [topic, partition, offset] = names;
  if (topic === undefined) return <List />;
  if (partition !== undefined && offset !== undefined) return <One topic={topic} partition={partition} offset={offset} />;
  return <OfTopic topic={topic} query={query} />;
}

function List() {
  const loaded = useLoad(() => pages<DeadTopic, "topics">("/v2/dlq", "topics", {}, 1000), ["dlq"]);
  return (
    <>
      <Head title="Dead letters" />
      <Card flush>
        <Show of={loaded}>
          {({ rows, more }) => (
            <Table
              label="Topics with dead letters"
              rows={rows}
              more={more}
              id={(row) => row.name}
              to={(row) => link(["letters", row.name])}
              empty="There are no dead letters."
              columns={[
                { name: "Topic", cell: (row) => row.name },
                { name: "Letters", cell: (row) => count(row.letters), number: true },
                { name: "Oldest", cell: (row) => <When at={row.oldest_at} /> },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

/** Errors differ in numbers and names: what is left is the cause. */
const cause = (item: Item): string => {
  const letter = item.envelope?.dead_letter;
  const error = (letter?.last_error ?? "").replace(/[0-9a-f]{8,}|\d+/gi, "#").slice(0, 160);
  return error || words(letter?.reason ?? "unknown");
};

const place = (item: Item): string => `${item.partition}/${item.offset}`;

function OfTopic({ topic, query }: { topic: string; query: URLSearchParams }) {
  const may = useMay();
  const [selected, setSelected] = useState(new Set<string>());
  const [asked, setAsked] = useState<Record<string, string>>(() => Object.fromEntries(query));
  const given = Object.fromEntries(query);
  const letters = useLoad(() => pages<Item, "letters">(path("dlq", topic), "letters", given, LETTERS_MAX), ["letters", topic, given]);
  const jobs = useLoad(async () => (await get<{ jobs: Job[] }>("/v2/jobs")).jobs.filter((job) => job.topic === topic), ["jobs of", topic]);
  const rows = letters.data?.rows ?? [];
  const causes = new Map<string, Item[]>();
  for (const row of rows) causes.set(cause(row), [...(causes.get(cause(row)) ?? []), row]);
  const chosen = rows.filter((row) => selected.has(place(row)));
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  const what: Selected =
    chosen.length > 0
      ? { what: plural(chosen.length, "letter"), of: { letters: chosen.map((row) => ({ partition: row.partition, offset: Number(row.offset) })) } }
      : Object.keys(filter).length > 0
        ? { what: "what the filter finds", of: { filter } }
        : { what: "all letters", of: { all: true } };
  const started = () => (setSelected(new Set()), jobs.again(), letters.again());
  const set = (name: string) => (value: string) => setAsked({ ...asked, [name]: value });
  return (
    <>
      <Head above={<a href="#/letters">Dead letters</a>} title={<span class="name">{topic}</span>}>
        {may("manage") && (
          <>
            <Opens label={`Redrive ${what.what}`} kind="primary" disabled={rows.length === 0}>
              {(close) => <LettersJob kind="redrive" topic={topic} selected={what} started={started} close={close} />}
            </Opens>
            <Opens label={`Purge ${what.what}`} kind="danger" disabled={rows.length === 0}>
              {(close) => <LettersJob kind="purge" topic={topic} selected={what} started={started} close={close} />}
            </Opens>
          </>
        )}
      </Head>
      <form class="filters" onSubmit={(event) => (event.preventDefault(), go(link(["letters", topic], asked)))}>
        <Field label="Group" value={asked.group ?? ""} set={set("group")} search />
        <Field label="Key" value={asked.key ?? ""} set={set("key")} />
        <Field label="Run" value={asked.run_id ?? ""} set={set("run_id")} />
        <Field label="Reason" value={asked.reason ?? ""} set={set("reason")} />
        <button class="primary" type="submit">
          Filter
        </button>
      </form>
      {jobs.data && jobs.data.length > 0 && (
        <Card title="Jobs" flush>
          <JobTable rows={jobs.data.slice(0, 5)} again={jobs.again} />
        </Card>
      )}
      <Show of={letters}>
        {({ more }) => (
          <>
            <Card title="By cause">
              {causes.size === 0 ? (
                <Empty>There are no dead letters here.</Empty>
              ) : (
                <ul class="causes">
                  {[...causes].sort(([, one], [, other]) => other.length - one.length).map(([words, items]) => (
                    <li key={words}>
                      <button type="button" onClick={() => setSelected(new Set(items.map(place)))}>
                        Select {count(items.length)}
                      </button>{" "}
                      <span class="error">{words}</span>
                    </li>
                  ))}
                </ul>
              )}
            </Card>
            <Card title="Letters" flush>
              <Table
                label="Dead letters"
                rows={rows}
                more={more}
                id={place}
                to={(row) => link(["letters", topic, row.partition, row.offset])}
                empty="There are no dead letters here."
                {...(may("manage") && { selected, select: setSelected })}
                columns={[
                  { name: "Letter", cell: place },
                  { name: "Key", cell: (row) => <span class="clip">{row.key ?? row.key_b64}</span>, wide: true },
                  { name: "Group", cell: (row) => row.envelope?.dead_letter?.group },
                  { name: "Reason", cell: (row) => <Pill state={row.envelope?.dead_letter?.reason ?? "unknown"} />, wide: true },
                  { name: "Error", cell: (row) => <span class="clip error">{row.envelope?.dead_letter?.last_error}</span> },
                  { name: "Attempts", cell: (row) => count(row.envelope?.dead_letter?.attempts), number: true, wide: true },
                  { name: "Died", cell: (row) => <When at={row.envelope?.dead_letter?.at} />, wide: true },
                ]}
              />
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

function One({ topic, partition, offset }: { topic: string; partition: string; offset: string }) {
  const loaded = useLoad(() => get<Item>(path("dlq", topic, partition, offset)), ["letter", topic, partition, offset]);
  return (
    <>
      <Head above={<><a href="#/letters">Dead letters</a> / <a href={link(["letters", topic])}>{topic}</a></>} title={<span class="name">{partition}/{offset}</span>} />
      <Show of={loaded}>
        {(data) => {
          const letter = data.envelope?.dead_letter;
          return (
            <>
              <Card title="How it died">
                <Facts
                  of={[
                    ["Reason", letter && <Pill state={letter.reason} />],
                    ["Last error", letter && <span class="error">{letter.last_error}</span>],
                    ["Died", <When at={letter?.at} />],
                    ["Group", letter?.group],
                    ["Attempts", count(letter?.attempts)],
                    ["Was", letter && <a href={link(["messages", letter.topic, letter.partition, letter.offset])}>{letter.topic} {letter.partition}/{count(letter.offset)}</a>],
                  ]}
                />
                <Attempts of={letter?.history ?? []} />
              </Card>
              <Card title="Value">
                <Value text={data.value} base64={data.value_b64} hidden={data.payload_hidden} />
              </Card>
              <Card title="Envelope">
                <Facts of={envelope(data)} />
              </Card>
            </>
          );
        }}
      </Show>
    </>
  );
}
