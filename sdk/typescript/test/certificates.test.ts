import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { Client, type ClientOptions, DriftQError, Untrusted, type WorkerEvent } from "../src/index.js";
import { byNodeHttpTrusting } from "../src/node-http.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { certificateFile, SecureProxy, type Certificate } from "./support/secure.js";
import { gate } from "./support/signals.js";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const ways: ["fetch" | "node-http", Pick<ClientOptions, "fetch">][] = [
  ["fetch", { fetch }],
  ["node-http", {}],
];

describe.concurrent.each(ways)("by %s,", (name, way) => {
  test("a certificate that nobody here has signed is an error that says what to do, and is not asked again", async () => {
    await using server = await TestServer.start();
    await using proxy = await SecureProxy.before(server.url, "self-signed");
    const error = await new Client({ url: proxy.url(), ...way }).send("orders", 1).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(Untrusted);
    expect(error).toBeInstanceOf(DriftQError);
    expect(error).toMatchObject({ name: "Untrusted", code: "DEPTH_ZERO_SELF_SIGNED_CERT", url: proxy.url() });
    expect(String(error)).toContain("NODE_EXTRA_CA_CERTS");
    expect(proxy.connections).toBe(1);
  });

  /** What becomes of a call by a program that trusts this certificate. */
  async function called(url: string, certificate: Certificate): Promise<string> {
    const program = `
      import { Client } from "driftq";
      const client = new Client(${name === "fetch"} ? { url: process.argv[1], fetch } : process.argv[1]);
      console.log(await client.call("GET", "/v2/healthz").then(({ status }) => status, String));
      process.exit();
    `;
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: certificateFile(certificate) };
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program, url], { cwd: PACKAGE, env });
    return stdout.trim();
  }

  test("one that was made known as the error says is trusted, under its own name and in its own time", async () => {
    await using server = await TestServer.start();
    await using proxy = await SecureProxy.before(server.url, "self-signed");
    await using expired = await SecureProxy.before(server.url, "expired");
    expect(await called(proxy.url(), "self-signed")).toBe("ok");
    expect(await called(proxy.url("localhost"), "self-signed")).toMatch(/^Untrusted: .*ERR_TLS_CERT_ALTNAME_INVALID.*other names/);
    expect(await called(expired.url(), "expired")).toMatch(/^Untrusted: .*CERT_HAS_EXPIRED.*renew it/);
  });
});

test("an authority that is named in the program is trusted, and no other", async () => {
  await using server = await TestServer.start();
  await using proxy = await SecureProxy.before(server.url, "self-signed");
  await using expired = await SecureProxy.before(server.url, "expired");
  const send = byNodeHttpTrusting(readFileSync(certificateFile("self-signed")));
  const status = (url: string) =>
    new Client({ url, send }).call<{ status: string }>("GET", "/v2/healthz").then(({ status }) => status, String);
  expect(await status(proxy.url())).toBe("ok");
  expect(await status(proxy.url("localhost"))).toMatch(/^Untrusted: .*ERR_TLS_CERT_ALTNAME_INVALID/);
  expect(await status(expired.url())).toMatch(/^Untrusted: /);
  expect(() => byNodeHttpTrusting("./tls/ca.pem")).toThrow(/not its name/);
});

test("a worker that runs waits for a certificate to be put right, and then goes on", async () => {
  await using server = await TestServer.start();
  await server.client().admin.createTopic("orders");
  await server.client().send("orders", "first");
  /** The ends of the paths whose next call finds the certificate expired. */
  let refused: string[] = [];
  const failure = () => new TypeError("fetch failed", { cause: Object.assign(new Error("certificate has expired"), { code: "CERT_HAS_EXPIRED" }) });
  const fetcher: typeof fetch = (target, init) => {
    const path = refused.find((end) => String(target).endsWith(end));
    refused = refused.filter((end) => end !== path);
    return path ? Promise.reject(failure()) : fetch(target, init);
  };
  const events: WorkerEvent[] = [];
  const back = gate();
  const onEvent = (event: WorkerEvent) => {
    events.push(event);
    if (event.kind === "server_back") back.open();
  };
  const handled: unknown[] = [];
  const worker = new Client({ url: server.url, fetch: fetcher }).worker("billing", { onEvent }).handle("orders", async (payload) => {
    handled.push(payload);
    if (payload === "first") refused = ["/lease", "/leases/ack"];
    // The next call for more is answered when there is more.
    if (payload === "first") await server.client().send("orders", "second");
    else await back.promise;
  });
  await runUntilIdle(worker);
  expect(refused).toEqual([]);
  expect(handled).toEqual(["first", "second"]);
  expect(events.map(({ kind }) => kind)).toEqual(["server_away", "server_back"]);
  expect(events[0]).toMatchObject({ error: { name: "Untrusted", code: "CERT_HAS_EXPIRED" } });
});
