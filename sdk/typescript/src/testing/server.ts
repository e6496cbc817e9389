import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, type ClientOptions } from "../client.js";
import { DriftQError } from "../errors.js";

export interface TestServerOptions {
  /** On disk, so that it can be killed and started again; in memory unless said so. */
  onDisk?: boolean;
  /** The binary; else `DRIFTQ_BIN`, else `driftq` in the `PATH`. */
  binary?: string;
  /** More flags of `driftq serve`. */
  flags?: readonly string[];
}

/** How long a server may take to start or to stop. */
const START_TIMEOUT_MS = 20_000;
/** The newest lines that the server wrote, for the error if it does not start. */
const LINES_KEPT = 50;

/** The servers that are to end with this process. */
const running = new Set<ChildProcess>();
process.once("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** A server of its own for a test: on a free port, gone when the test is. */
export class TestServer {
  #process: ChildProcess | undefined;
  #url = "";
  readonly #lines: string[] = [];

  private constructor(
    private readonly options: TestServerOptions,
    private readonly directory: string | undefined,
  ) {}

  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const directory = options.onDisk ? await mkdtemp(join(tmpdir(), "driftq-test-")) : undefined;
    const server = new TestServer(options, directory);
    await server.#spawn("127.0.0.1:0");
    return server;
  }

  get url(): string {
    return this.#url;
  }

  client(options: Omit<ClientOptions, "url"> = {}): Client {
    return new Client({ ...options, url: this.#url });
  }

  /** Ends the server as a power failure does. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Starts the server again, at the same address and on the same data. Kills it first if it runs. */
  async restart(): Promise<void> {
    if (!this.directory) throw new DriftQError("a server in memory has nothing to come back with: start it with onDisk");
    await this.kill();
    await this.#spawn(new URL(this.#url).host);
  }

  /** Stops the server, and removes its data. */
  async stop(): Promise<void> {
    await this.#end("SIGKILL");
    if (this.directory) await rm(this.directory, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #spawn(listen: string): Promise<void> {
    const binary = this.options.binary ?? (process.env["DRIFTQ_BIN"] || "driftq");
    const data = this.directory === undefined ? ["--ephemeral"] : ["--data", this.directory];
    const flags = ["serve", "--listen", listen, ...data, ...(this.options.flags ?? [])];
    const child = spawn(binary, flags, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    this.#url = await this.#listening(child, binary);
    // A test that forgets to stop its server still ends, and takes the server along.
    child.unref();
    for (const pipe of [child.stdout, child.stderr]) (pipe as unknown as { unref?: () => void } | null)?.unref?.();
    running.add(child);
    child.once("exit", () => running.delete(child));
  }

  #listening(child: ChildProcess, binary: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        clearTimeout(timer);
        child.kill("SIGKILL");
        reject(new DriftQError(`${binary} did not start: ${why}. Set DRIFTQ_BIN to the server's binary\n${this.#lines.join("\n")}`));
      };
      const timer = setTimeout(() => fail(`nothing within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
      child.once("error", (error) => fail(error.message));
      child.once("exit", (code, signal) => fail(`it ended with ${code ?? signal}`));
      for (const pipe of [child.stdout!, child.stderr!]) {
        createInterface({ input: pipe }).on("line", (line) => {
          if (this.#lines.push(line) > LINES_KEPT) this.#lines.shift();
          const url = /^listening on (\S+)/.exec(line)?.[1];
          if (url === undefined) return;
          clearTimeout(timer);
          child.removeAllListeners("exit");
          resolve(url);
        });
      }
    });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(signal);
    child.ref();
    await ended;
  }
}
