// A message from a person.

import { useState } from "preact/hooks";

import { path, post } from "../api";
import { go, link } from "../hooks";
import { Ask, Field } from "../parts";
import type { Int } from "../types";

export function Produce({ topic, done, close }: { topic: string; done: () => void; close: () => void }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [delay, setDelay] = useState("");
  const [labels, setLabels] = useState("");
  const [run, setRun] = useState("");
  const produce = async () => {
    const pairs = labels.split(/\s+/).filter(Boolean).map((pair) => pair.split(/=(.*)/s).slice(0, 2));
    const envelope = {
      ...(pairs.length > 0 && { labels: Object.fromEntries(pairs) as Record<string, string> }),
      ...(run && { run_id: run }),
    };
    const stored = await post<{ topic: string; partition: number; offset: Int }>(path("topics", topic, "messages"), {
      value,
      ...(key && { key }),
      ...(delay && { delay_ms: Number(delay) * 1000 }),
      ...(Object.keys(envelope).length > 0 && { envelope }),
    });
    done();
    go(link(["messages", stored.topic, stored.partition, stored.offset]));
  };
  return (
    <Ask title={<>Produce to {topic}</>} verb={`Produce to ${topic}`} act={produce} close={close}>
      <Field label="Value" value={value} set={setValue} lines={5} />
      <Field label="Key" value={key} set={setKey} hint="Messages of one key stay in order. May be empty." />
      <Field label="Delay, in seconds" type="number" value={delay} set={setDelay} />
      <Field label="Run" value={run} set={setRun} />
      <Field label="Labels" value={labels} set={setLabels} placeholder="team=risk region=eu" />
    </Ask>
  );
}
