// Dead letters, by what killed them.

import { useState } from "preact/hooks";

import { get, pages, path } from "../api";
import { count, plural } from "../format";
import { go, link, useLoad } from "../hooks";
import { Card, Facts, Field, Filters, Head, Listed, Opens, Pill, Show, Value, When } from "../parts";
import { useMay } from "../session";
import type { Cause, Item, Job } from "../types";
import type { PageProps } from ".";
import { JobTable, LettersJob, type Selected } from "./jobs";
import { Attempts, envelope } from "./messages";

/** Letters that are listed; causes are counted by the server. */
const LETTERS_MAX = 200;

interface Causes {
  causes: Cause[];
  scanned: number;
  more: boolean;
}

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
      <Listed
        of={loaded}
        label="Topics with dead letters"
        id={(row) => row.name}
        to={(row) => link(["letters", row.name])}
        empty="There are no dead letters."
        columns={[
          { name: "Topic", cell: (row) => row.name },
          { name: "Letters", cell: (row) => count(row.letters), number: true },
          { name: "Oldest", cell: (row) => <When at={row.oldest_at} /> },
        ]}
      />
    </>
  );
}

const place = (item: Item): string => `${item.partition}/${item.offset}`;

function OfTopic({ topic, query }: { topic: string; query: URLSearchParams }) {
  const may = useMay();
  const [selected, setSelected] = useState(new Set<string>());
  const [asked, setAsked] = useState<Record<string, string>>(() => Object.fromEntries(query));
  const given = Object.fromEntries(query);
  const letters = useLoad(() => pages<Item, "letters">(path("dlq", topic), "letters", given, LETTERS_MAX), ["letters", topic, given]);
  const jobs = useLoad(async () => (await get<{ jobs: Job[] }>("/v2/jobs")).jobs.filter((job) => job.topic === topic), ["jobs of", topic]);
  const causes = useLoad(() => get<Causes>(path("dlq", topic, "causes"), { ...given, cause: undefined }), ["causes", topic, given]);
  const rows = letters.data?.rows ?? [];
  const chosen = rows.filter((row) => selected.has(place(row)));
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  const what: Selected =
    chosen.length > 0
      ? { what: plural(chosen.length, "chosen letter"), of: { letters: chosen.map((row) => ({ partition: row.partition, offset: Number(row.offset) })) } }
      : Object.keys(filter).length > 0
        ? { what: given.cause && Object.keys(filter).length === 1 ? "all of this cause" : "what the filter finds", of: { filter } }
        : { what: "all letters", of: { all: true } };
  const started = () => (setSelected(new Set()), jobs.again(), letters.again(), causes.again());
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
      <Filters verb="Filter" go={() => go(link(["letters", topic], asked))}>
        <Field label="Group" value={asked.group ?? ""} set={set("group")} search />
        <Field label="Key" value={asked.key ?? ""} set={set("key")} />
        <Field label="Run" value={asked.run_id ?? ""} set={set("run_id")} />
        <Field label="Reason" value={asked.reason ?? ""} set={set("reason")} />
      </Filters>
      {jobs.data && jobs.data.length > 0 && (
        <Card title="Jobs" flush>
          <JobTable rows={jobs.data.slice(0, 5)} again={jobs.again} />
        </Card>
      )}
      <Listed
        of={{ ...causes, data: causes.data && { rows: causes.data.causes, more: false } }}
        title="By cause"
        label="Causes"
        id={(row) => row.cause}
        to={(row) => link(["letters", topic], given.cause === row.cause ? { ...given, cause: undefined } : { ...given, cause: row.cause })}
        selected={new Set(given.cause ? [given.cause] : [])}
        empty="There are no dead letters here."
        columns={[
          { name: "Cause", cell: (row) => <span class="error">{row.cause}</span> },
          { name: "Letters", cell: (row) => count(row.letters), number: true },
          { name: "First", cell: (row) => <When at={row.first_at} />, wide: true },
          { name: "Last", cell: (row) => <When at={row.last_at} /> },
        ]}
      />
      {causes.data?.more && <p class="note">There are more than are counted here: {count(causes.data.scanned)} letters were looked at.</p>}
      <Listed
        of={letters}
        title={given.cause ? <>Letters that died of “{given.cause}” <a class="note" href={link(["letters", topic], { ...given, cause: undefined })}>show all</a></> : "Letters"}
        label="Dead letters"
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
