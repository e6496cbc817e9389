import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { TestServer } from "../../src/testing/index.js";

const SERVERS = 3;

/** Servers that keep their log in a PostgreSQL of their own: one serves, the others pass on. */
export class Cluster {
  private constructor(
    readonly servers: readonly TestServer[],
    private readonly database: ChildProcess,
  ) {}

  /** Says why there is none where PostgreSQL, or what starts it, is not installed. */
  static async start(): Promise<Cluster | string> {
    const testbed = join(dirname(process.env["DRIFTQ_BIN"] ?? ""), "driftq-testbed");
    if (!process.env["DRIFTQ_BIN"] || !existsSync(testbed)) return "there is no driftq-testbed beside DRIFTQ_BIN";
    const database = spawn(testbed, ["serve", "--durable"], { stdio: ["pipe", "pipe", "pipe"] });
    let complaints = "";
    database.stderr.on("data", (part: Buffer) => (complaints += part));
    const url = await Promise.race([once(createInterface({ input: database.stdout }), "line"), once(database, "close")]);
    if (typeof url[0] !== "string" || !url[0].startsWith("postgres")) {
      if (complaints.includes("not installed")) return complaints.trim();
      throw new Error(`PostgreSQL did not start: ${complaints}`);
    }
    const flags = ["--log", url[0], "--log-schema", "typescript", "--node-url", "http://127.0.0.1:0", "--log-level", "warn"];
    const started = await Promise.allSettled(Array.from({ length: SERVERS }, () => TestServer.start({ onDisk: true, flags })));
    const cluster = new Cluster(started.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])), database);
    const failed = started.find((one) => one.status === "rejected");
    if (!failed) return cluster;
    await cluster.stop();
    throw failed.reason;
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url);
  }

  /** The one that serves, as any of them says; waits until there is one. */
  async serving(): Promise<TestServer> {
    for (;;) {
      for (const { url } of this.servers) {
        const answer = await fetch(`${url}/v2/cluster`).catch(() => undefined);
        const named = answer?.ok ? ((await answer.json()) as { serving?: string }).serving : undefined;
        const serving = this.servers.find((server) => server.url === named);
        if (serving) return serving;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
    const ended = once(this.database, "exit");
    this.database.stdin!.end();
    await ended;
  }
}
