// A server of its own and a browser, for tests that look at pages as a person does.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const BINARY = process.env.DRIFTQ_BIN ?? join(here, "../../target/debug/driftq");
const BROWSERS = [process.env.DRIFTQ_TEST_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const START_MS = 20_000;

export const PHONE = { width: 390, height: 844 };
export const DESKTOP = { width: 1440, height: 900 };

/** Servers that are to end with this process, however it ends. */
const running = new Set();
process.once("exit", () => running.forEach((child) => child.kill("SIGKILL")));

export class Server {
  static async start({ flags = [], keys = false } = {}) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "driftq-ui-"));
    server.flags = flags;
    if (keys) {
      server.root = await said(spawn(BINARY, ["key", "create", "--root", "--data", join(server.folder, "data")]), /(dq_root_[0-9a-f]{64})/);
      server.flags = [...flags, "--keys", "required"];
    }
    await server.spawn("127.0.0.1:0");
    return server;
  }

  async spawn(listen) {
    this.child = spawn(BINARY, ["serve", "--listen", listen, "--data", join(this.folder, "data"), "--log-format", "json", ...this.flags], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const child = this.child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    this.url = await said(child, /(https?:\/\/127\.0\.0\.1:\d+)/);
  }

  /** As a machine that loses its power. */
  async kill() {
    const gone = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await gone;
  }

  async restart() {
    await this.spawn(new URL(this.url).host);
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async call(method, path, body, key = this.root) {
    const headers = { ...(body !== undefined && { "content-type": "application/json" }), ...(key && { authorization: `Bearer ${key}` }) };
    const answer = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  post(path, body = {}) {
    return this.call("POST", path, body);
  }

  async commit(key, body) {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const answer = await fetch(`${this.url}/v2/commit`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`commit: ${answer.status} ${await answer.text()}`);
  }

  async produce(topic, message) {
    return await this.post(`/v2/topics/${encodeURIComponent(topic)}/messages`, message);
  }

  async lease(topic, group, { max = 1, lease_ms = 600_000, owner = "worker-1" } = {}) {
    const where = `/v2/topics/${encodeURIComponent(topic)}/groups/${encodeURIComponent(group)}/lease`;
    return (await this.post(where, { owner, max, lease_ms, wait_ms: 5_000 })).messages;
  }
}

/** What a program says, once it does. */
function said(child, pattern) {
  return new Promise((resolve, reject) => {
    const heard = [];
    const timer = setTimeout(() => reject(new Error(`nothing like ${pattern} in time:\n${heard.join("\n")}`)), START_MS);
    const hear = (line) => {
      heard.push(line);
      const found = pattern.exec(line);
      if (found) {
        clearTimeout(timer);
        resolve(found[1]);
      }
    };
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", hear);
    child.once("exit", (code) => setTimeout(() => reject(new Error(`ended with ${code}:\n${heard.join("\n")}`)), 50));
  });
}

export async function browser() {
  const executablePath = BROWSERS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("there is no Chromium; install the package chromium, or name one in DRIFTQ_TEST_CHROMIUM");
  return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}

const AXE = readFileSync(join(here, "../node_modules/axe-core/axe.min.js"), "utf8");

/** A page that fails its test if it logs an error, throws, or breaks the policy. */
export async function open(chromium, server, { viewport = DESKTOP, colorScheme = "light", hash = "#/", script } = {}) {
  const context = await chromium.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`threw: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // What a server that is away or refuses is no fault of the page.
    if (message.type() === "error" && !/Failed to load resource|net::ERR/.test(message.text())) wrong.push(message.text());
  });
  page.on("dialog", (dialog) => {
    wrong.push(`a script ran: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.wrong = wrong;
  // With the variable set, files come from a fresh build and not from the binary: no compiler in the loop.
  if (process.env.DRIFTQ_UI_BUILD) await serveFresh(page, process.env.DRIFTQ_UI_BUILD);
  if (script) await page.addInitScript(script);
  await page.goto(`${server.url}/ui/${hash}`);
  return page;
}

async function serveFresh(page, build) {
  await page.route("**/ui/**", async (route) => {
    const name = new URL(route.request().url()).pathname.replace("/ui/", "") || "index.html";
    const answer = await route.fetch({ url: new URL("/ui/", route.request().url()).href, maxRetries: 0 });
    const type = { html: "text/html", js: "text/javascript", css: "text/css" }[name.split(".").pop()];
    const headers = { "content-type": `${type}; charset=utf-8`, "content-security-policy": answer.headers()["content-security-policy"] ?? "" };
    await route.fulfill({ headers, body: readFileSync(join(build, name)) });
  });
}

export const goTo = async (page, hash, title) => {
  await page.evaluate((to) => (location.hash = to), hash);
  if (title) await page.getByRole("heading", { level: 1, name: title }).waitFor();
};

/** Findings of axe that keep somebody out. The policy lets no script in, so it comes by the debugger. */
export async function barriers(page, only) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const how = { resultTypes: ["violations"], ...(only && { runOnly: only }) };
  const { violations } = await page.evaluate((options) => window.axe.run(document, options), how);
  return violations
    .filter((found) => found.impact === "serious" || found.impact === "critical")
    .map((found) => `${found.id}: ${found.nodes.map((node) => `${node.target} ${node.failureSummary}`).join(" | ").slice(0, 600)}`);
}

/** A server with something of everything on it. */
export async function furnish(server) {
  await server.call("PUT", "/v2/topics/orders", { partitions: 2, retry_policy: { max_attempts: 2, backoff_ms: 60_000, jitter: "none" } });
  await server.call("PUT", "/v2/topics/mail", { ordering: "key" });
  await server.call("PUT", "/v2/topics/reports", {});
  for (let place = 0; place < 12; place += 1) {
    await server.produce("orders", {
      key: `user:${place}`,
      value: JSON.stringify({ order: place, amount: "19.90", items: [{ sku: "A-1", count: 2 }] }),
      envelope: { run_id: `run-${place % 3}`, step_id: `step-${place}`, labels: { team: "risk" } },
    });
  }
  await server.produce("reports", { value: "later", delay_ms: 3_600_000 });
  const [first, second, third] = await server.lease("orders", "billing", { max: 3 });
  await server.post("/v2/leases/nack", { leases: [{ token: first.lease.token, error: "card 4711 was declined", dead: true }] });
  await server.post("/v2/leases/nack", { leases: [{ token: second.lease.token, error: "time-out of the bank after 30 s" }] });
  for (const [key, on_lapse] of [["charge-1", "hold"], ["charge-2", "retry"]]) {
    await server.post("/v2/effects/begin", { scope: "charge", key, lease_ms: 1_000, on_lapse, owner: "worker-1", run_id: "run-0", step_id: "step-0", request_hash: "sha256:12ab" });
  }
  const done = await server.post("/v2/effects/begin", { scope: "mail", key: "welcome-7", lease_ms: 60_000, on_lapse: "hold", owner: "worker-2", run_id: "run-1" });
  await server.post("/v2/effects/finish", { token: done.lease.token, status: "succeeded", code: 202, body: '{"id":"m-1"}' });
  await server.post("/v2/commit", {
    ack: [third.lease.token],
    outputs: [
      { dataset: "daily", version: "v1", partition_key: "2026-11-17", mode: "replace", location: "s3://bucket/daily/v1", digest: "sha256:aa" },
      { dataset: "daily", version: "v2", partition_key: "2026-11-17", mode: "replace", location: "s3://bucket/daily/v2", digest: "sha256:bb" },
    ],
  });
  await server.post("/v2/outputs/daily/cutover", { version: "v1" });
  await walk(server);
  await server.call("PUT", "/v2/tenants/acme", { topics: 3, messages: 1_000, requests_per_second: 50 });
  await server.call("PUT", "/v2/topics/acme.jobs", { tenant: "acme" });
  await server.call("PUT", "/v2/endpoints/shop", { kind: "webhook", url: "https://shop.example/hooks", secrets: [{ env: "SHOP_SECRET" }] });
  await server.post("/v2/deliveries", { delivery_id: "d-1", endpoint: "shop", body: "hello" });
  // An effect of a lost worker becomes unknown when its lease is over.
  await until(async () => (await server.call("GET", "/v2/effects?state=unknown")).effects.length > 0);
}

/** A run of an agent with something of everything: steps that caused others, a failure, effects, an output, waits. */
async function walk(server) {
  await server.call("PUT", "/v2/topics/agent", { retry_policy: { max_attempts: 3, backoff_ms: 1, jitter: "none" } });
  await server.call("PUT", "/v2/topics/slow", { retry_policy: { max_attempts: 3, backoff_ms: 600_000, max_backoff_ms: 600_000, jitter: "none" } });
  const step = (topic, step_id, parent_step_id, more = {}) =>
    server.produce(topic, { value: `{"step":"${step_id}"}`, envelope: { run_id: "trip-7", step_id, ...(parent_step_id && { parent_step_id }) }, ...more });
  const lease = async (topic) => (await server.lease(topic, "agents", { owner: "agent-3" }))[0].lease.token;
  const effect = (scope, key, step_id, lease_token) =>
    server.post("/v2/effects/begin", { scope, key, lease_token, lease_ms: 600_000, on_lapse: "hold", owner: "agent-3", run_id: "trip-7", step_id });
  const finish = (begun) => ({ token: begun.lease.token, status: "succeeded", code: 200, body: "{}" });
  await step("agent", "plan");
  await server.commit("trip-7-plan", { ack: [await lease("agent")] });
  await step("agent", "find-flights", "plan");
  await server.post("/v2/leases/nack", { leases: [{ token: await lease("agent"), error: "the airline answered 503" }] });
  const found = await lease("agent");
  await server.commit("trip-7-flights", {
    ack: [found],
    effects: [finish(await effect("search", "flights-7", "find-flights", found))],
    outputs: [{ dataset: "offers", version: "2026-11", partition_key: "trip-7", mode: "replace", location: "s3://trips/offers/7", digest: "sha256:cc" }],
    produce: [{ topic: "agent", message: { value: "book", envelope: { run_id: "trip-7", step_id: "book", parent_step_id: "find-flights" } } }],
  });
  await effect("charge", "trip-7", "book", await lease("agent"));
  await step("slow", "find-hotels", "plan");
  await server.post("/v2/leases/nack", { leases: [{ token: await lease("slow"), error: "no answer within 30 s" }] });
  await step("agent", "remind", "plan", { delay_ms: 3_600_000 });
}

export async function until(holds, what = "it") {
  const end = Date.now() + 10_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`${what} did not come true`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}
