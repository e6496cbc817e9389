// The server about itself.

import { get } from "../api";
import { bytes, count, duration, words } from "../format";
import { useLoad } from "../hooks";
import { useLive } from "../live";
import { Card, Facts, Head, Pill, Show } from "../parts";
import type { Status } from "../types";

export function Server() {
  const { sample } = useLive();
  const status = useLoad(() => get<Status>("/v2/status"), ["status"]);
  const router = useLoad(() => get<Record<string, unknown>>("/v2/router"), ["router"]);
  return (
    <>
      <Head title="Server" />
      <Card title="How it does">
        <Show of={status}>
          {(data) => (
            <Facts
              of={[
                ["State", <><Pill state={data.ready && data.writable ? "ready" : "failed"} /> {data.why}</>],
                ["Version", `${data.version} (${data.commit})`],
                ["Up for", duration(data.uptime_ms)],
                ["Durability", data.durability],
                ["Data", data.data],
                ["Shards", data.shards === undefined ? undefined : count(data.shards)],
                ["Segments", data.segments === undefined ? undefined : count(data.segments)],
                ["Written since start", sample && bytes(sample.written_bytes)],
                ["Topics", count(data.topics)],
                ["Streams", data.streams === undefined ? undefined : count(data.streams)],
                ["Connections", data.connections === undefined ? undefined : count(data.connections)],
                ["Starts of this log", count(data.epoch)],
                ["Last recovery", duration(data.recovery.duration_ms)],
              ]}
            />
          )}
        </Show>
      </Card>
      <Card title="Router">
        <Show of={router}>
          {(data) => <Facts of={Object.entries(data).map(([name, value]) => [words(name), Array.isArray(value) ? value.join(", ") || "all" : String(value)])} />}
        </Show>
      </Card>
    </>
  );
}
