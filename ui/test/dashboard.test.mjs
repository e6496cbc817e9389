// The dashboard in a real browser, against a real server.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import * as bench from "./bench.mjs";
import { barriers, browser, DESKTOP, furnish, goTo, PHONE, Server, until } from "./bench.mjs";

let chromium;
let server;

before(async () => {
  chromium = await browser();
  server = await Server.start();
  await furnish(server);
});

/** Pages that a test has opened; they are closed with it, however it ends. */
const opened = [];
const open = async (...how) => {
  const page = await bench.open(...how);
  opened.push(page);
  return page;
};

afterEach(async () => {
  for (const page of opened.splice(0)) await page.context().close();
});

after(async () => {
  await chromium?.close();
  await server?.stop();
});

const PAGES = [
  ["#/", "Overview", "Dead letters"],
  ["#/topics", "Topics", "orders"],
  ["#/topics/orders", "orders", "billing"],
  ["#/topics/orders/groups/billing", "billing", "What messages wait for"],
  ["#/messages?topic=orders", "Messages", "user:1"],
  ["#/messages/reports/0/0", "0/0", "No group reads reports"],
  ["#/letters", "Dead letters", "orders"],
  ["#/letters/orders", "orders", "card 4711 was declined"],
  ["#/letters/orders/0/0", "0/0", "card 4711 was declined"],
  ["#/effects", "Effects", "charge-1"],
  ["#/effects/-/charge/charge-1", "charge · charge-1", "sha256:12ab"],
  ["#/effects/-/mail/welcome-7", "mail · welcome-7", "m-1"],
  ["#/runs", "Runs", "run-0"],
  ["#/runs/run-0", "run-0", "step-0"],
  ["#/runs/trip-7", "trip-7", "find-hotels"],
  ["#/commits", "Commits", "idempotency key is found"],
  ["#/commits/trip-7-flights", "Commits", "agent 0/2"],
  ["#/tenants", "Tenants", "acme"],
  ["#/outputs", "Outputs", "daily"],
  ["#/outputs/daily", "daily", "v2"],
  ["#/outputs/daily/v1", "v1", "s3://bucket/daily/v1"],
  ["#/jobs", "Jobs", "No job runs"],
  ["#/endpoints", "Endpoints", "shop"],
  ["#/endpoints/shop", "shop", "https://shop.example/hooks"],
  ["#/deliveries?endpoint=shop", "Deliveries", "d-1"],
  ["#/exports", "Exports", "Say for which place"],
  ["#/keys", "Keys", "asks for no keys"],
  ["#/audit", "Audit", "cut over"],
  ["#/server", "Server", "survives a crash"],
];

for (const [name, viewport] of [["phone", PHONE], ["desktop", DESKTOP]]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`every page on a ${name}, ${colorScheme}: it shows what is there, fits, and keeps nobody out`, async () => {
      const page = await open(chromium, server, { viewport, colorScheme });
      for (const [hash, title, shown] of PAGES) {
        await goTo(page, hash, title);
        await page.locator("main").getByText(shown).first().waitFor({ state: "attached" });
        const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        assert.equal(isWider, false, `${hash} is wider than the screen`);
        // The other theme differs in its colours alone.
        const rules = colorScheme === "dark" ? ["color-contrast"] : undefined;
        assert.deepEqual(await barriers(page, rules), [], `${hash} on a ${name}, ${colorScheme}`);
      }
      assert.deepEqual(page.wrong, []);
    });
  }
}

test("a message is produced, waits, is leased, fails, dies and is sent back", async () => {
  const page = await open(chromium, server, { hash: "#/topics" });
  await page.getByRole("button", { name: "New topic" }).click();
  await page.getByLabel("Name", { exact: true }).fill("parcels");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { level: 1, name: "parcels" }).waitFor();
  await server.call("PATCH", "/v2/topics/parcels", { retry_policy: { max_attempts: 2, backoff_ms: 600_000, jitter: "none" } });

  await page.getByRole("button", { name: "Produce", exact: true }).click();
  await page.getByLabel("Value").fill('{"weight": 12345678901234567890.10, "to": "Łódź"}');
  await page.getByRole("button", { name: "Produce to parcels" }).click();
  await page.getByRole("heading", { level: 1, name: "0/0" }).waitFor();
  await page.getByText("No group reads parcels").waitFor();
  await page.getByText("12345678901234567890.10").waitFor();

  // Every turn of its life is shown without a reload.
  const [leased] = await server.lease("parcels", "vans", { owner: "van-7" });
  await page.getByText("On loan to van-7").waitFor();
  await server.post("/v2/leases/nack", { leases: [{ token: leased.lease.token, error: "the road is closed" }] });
  await page.getByText("It failed and waits for its next attempt.").waitFor();
  await page.getByText("the road is closed").first().waitFor();
  await page.getByRole("button", { name: "Retry now" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry 0/0" }).click();
  await page.getByText("Nothing is in its way: the next reader gets it.").waitFor();
  const [again] = await server.lease("parcels", "vans", { owner: "van-8" });
  assert.equal(again.lease.attempt, 2);
  await server.post("/v2/leases/nack", { leases: [{ token: again.lease.token, error: "the van broke down", dead: true }] });
  await page.getByText("Every group may be done with it.").waitFor();
  await page.getByRole("link", { name: "dead letters of parcels" }).click();
  await page.getByRole("heading", { level: 1, name: "parcels" }).waitFor();
  await page.getByText("the van broke down").first().waitFor();
  await page.getByRole("link", { name: "the van broke down" }).click();
  await page.getByRole("button", { name: "Redrive all of this cause" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Dry run" }).click();
  await dialog.getByText("1 letter would be sent back.").waitFor();
  assert.equal((await server.call("GET", "/v2/dlq/parcels")).letters.length, 1, "a dry run changes nothing");
  await dialog.getByRole("button", { name: "Send back all of this cause of parcels" }).click();
  await page.getByText("There are no dead letters here.").first().waitFor();
  const [back] = await server.lease("parcels", "vans");
  assert.equal(back.lease.attempt, 1);
  assert.deepEqual(page.wrong, []);
});

test("a run shows its steps, what each wait is for, and what becomes of it", async () => {
  const page = await open(chromium, server, { hash: "#/runs/trip-7" });
  const steps = page.getByRole("region", { name: "Steps" });
  await steps.getByText("caused by find-flights").waitFor({ state: "attached" });
  for (const row of ["offers 2026-11", "charge · trip-7", "search · flights-7"]) await steps.getByText(row).waitFor();
  await page.getByText(/^backoff, .* left$/).waitFor();
  await page.getByText(/^scheduled, .* left$/).waitFor();
  await page.getByRole("button", { name: /^agent 0\/1: waited/ }).click();
  await page.getByText("attempt 1 by agent-3: the airline answered 503").waitFor();
  const { steps: told } = await server.call("GET", "/v2/runs/trip-7");
  const [{ groups }] = told.find((step) => step.step_id === "book").messages;
  assert.deepEqual([groups[0].state, groups[0].owner, groups[0].waits.state], ["running", "agent-3", "in_flight"]);
  await server.call("DELETE", "/v2/topics/agent/messages/0/3");
  await steps.getByText("cancelled").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("what workers hold is shown with the time that is left, and tenants with what they may have", async () => {
  await server.call("PUT", "/v2/topics/loans", {});
  await server.produce("loans", { value: "x" });
  const [held] = await server.lease("loans", "desk", { owner: "clerk-4", lease_ms: 600_000 });
  const page = await open(chromium, server, { hash: "#/topics/loans/groups/desk" });
  const row = page.getByRole("row", { name: /0\/0 clerk-4/ });
  await row.getByText(/^9 min \d+ s$/).waitFor();
  await server.post("/v2/leases/ack", { leases: [{ token: held.lease.token }] });
  await page.getByText("No worker holds a message.").waitFor();

  await goTo(page, "#/tenants", "Tenants");
  await page.getByRole("row", { name: /acme 1 of 3/ }).getByRole("button", { name: "Limits" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Topics").fill("2");
  await dialog.getByRole("button", { name: "Limit acme" }).click();
  await page.getByRole("row", { name: /acme 1 of 2/ }).waitFor();
  const { limits } = await server.call("GET", "/v2/tenants/acme");
  assert.deepEqual(limits, { requests_per_second: 50, topics: 2, messages: 1_000 }, "what was not touched stays");
  assert.deepEqual(page.wrong, []);
});

test("the overview says what the server's report says", async () => {
  const page = await open(chromium, server);
  const { findings } = await server.call("GET", "/v2/report");
  const urgent = findings.find((finding) => finding.area === "effects");
  assert.equal(urgent.verdict, "act");
  await page.getByRole("link", { name: urgent.what }).click();
  await page.getByRole("heading", { level: 1, name: "Effects" }).waitFor();
  assert.deepEqual(page.wrong, []);
});

test("an unknown effect is resolved by somebody, for a reason", async () => {
  await server.post("/v2/effects/begin", { scope: "refund", key: "r-9", lease_ms: 1_000, on_lapse: "hold", owner: "worker-3" });
  const page = await open(chromium, server, { hash: "#/effects" });
  const row = page.getByRole("row", { name: /refund · r-9/ });
  await row.waitFor();
  await row.getByRole("button", { name: "Resolve" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Who says so").fill("Ada");
  await dialog.getByLabel("How it is known").fill("the bank lists it");
  await dialog.getByLabel("Result").fill('{"refund":"ok"}');
  await dialog.getByRole("button", { name: "Resolve r-9" }).click();
  await row.waitFor({ state: "detached" });
  const effect = await server.post("/v2/effects/get", { scope: "refund", key: "r-9" });
  assert.equal(effect.state, "succeeded");
  await goTo(page, "#/effects/-/refund/r-9", "refund · r-9");
  await page.getByText("the bank lists it").waitFor();
  await page.getByText("as a replay").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("an output is cut over, and a topic is deleted only by its name", async () => {
  const page = await open(chromium, server, { hash: "#/outputs/daily" });
  await page.getByRole("row", { name: /^v2/ }).getByRole("button", { name: "Cut over" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cut over to v2" }).click();
  await until(async () => (await server.call("GET", "/v2/outputs/daily")).current === "v2", "the cut-over");

  await server.call("PUT", "/v2/topics/doomed", {});
  await goTo(page, "#/topics/doomed", "doomed");
  await page.getByRole("button", { name: "Delete" }).click();
  const sure = page.getByRole("button", { name: "Delete doomed" });
  assert.equal(await sure.isDisabled(), true);
  await page.getByLabel("Type doomed to confirm").fill("doomed");
  await sure.click();
  await page.getByRole("heading", { level: 1, name: "Topics" }).waitFor();
  await assert.rejects(server.call("GET", "/v2/topics/doomed"), /404/);
  assert.deepEqual(page.wrong, []);
});

test("markup is text, wherever it comes from", async () => {
  const evil = `<img src=x onerror=alert(1)><script>alert(2)</script>"'&amp;`;
  await server.call("PUT", `/v2/topics/${encodeURIComponent(evil)}`, {});
  const envelope = { run_id: evil, step_id: evil, idempotency_key: evil, labels: { evil } };
  await server.produce(evil, { key: evil, value: JSON.stringify({ [evil]: evil }), envelope });
  const [leased] = await server.lease(evil, evil, { owner: evil });
  await server.post("/v2/effects/begin", { scope: evil, key: evil, on_lapse: "hold", lease_ms: 60_000, owner: evil, run_id: evil });
  const page = await open(chromium, server, { hash: "#/topics" });
  const name = encodeURIComponent(evil);
  const seen = async (hash) => {
    await goTo(page, hash);
    await page.locator("main").getByText(evil).first().waitFor({ state: "attached" });
    assert.equal(await page.locator("main img, main script").count(), 0, hash);
  };
  for (const hash of ["#/topics", `#/topics/${name}`, `#/topics/${name}/groups/${name}`, `#/messages?topic=${name}`, `#/messages/${name}/0/0`]) await seen(hash);
  await server.post("/v2/leases/nack", { leases: [{ token: leased.lease.token, error: evil, dead: true }] });
  for (const hash of ["#/letters", `#/letters/${name}`, `#/letters/${name}/0/0`, "#/effects?state=in_progress", `#/effects/-/${name}/${name}`, "#/runs", `#/runs/${name}`, `#/nowhere/${name}`]) {
    if (hash.startsWith("#/nowhere")) await goTo(page, hash, "Overview");
    else await seen(hash);
  }
  assert.deepEqual(page.wrong, [], "no script ran, and nothing was refused by the policy");
});

test("the policy refuses scripts that are put into the page", async () => {
  const page = await open(chromium, server);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
  });
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.match(page.wrong.join(), /Content Security Policy/);
});

test("keys: the keyboard goes everywhere", async () => {
  const page = await open(chromium, server);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("heading", { level: 1, name: "Topics" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("ord");
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "mail", exact: true }).waitFor({ state: "detached" });
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "orders" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(page.wrong, []);
});

test("a server that is killed and started again is found again without a reload", async () => {
  const other = await Server.start();
  try {
    await other.call("PUT", "/v2/topics/before", {});
    const page = await open(chromium, other, { hash: "#/topics" });
    await page.getByRole("link", { name: "before" }).waitFor();
    await page.evaluate(() => (window.isTheSame = true));
    await other.kill();
    await page.getByText("the server is away").waitFor();
    await other.restart();
    await other.call("PUT", "/v2/topics/after", {});
    await page.getByRole("link", { name: "after" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.isTheSame), true);
    assert.deepEqual(page.wrong, []);
  } finally {
    await other.stop();
  }
});

test("nobody is told anything while the page is hidden", async () => {
  const page = await open(chromium, server);
  await page.getByText("live", { exact: true }).waitFor();
  const streams = async () => (await server.call("GET", "/v2/status")).connections;
  const show = (hidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const before = await streams();
  await show(true);
  await page.getByText("paused", { exact: true }).first().waitFor();
  await until(async () => (await streams()) < before, "the end of the stream");
  await show(false);
  await page.getByText("live", { exact: true }).waitFor();
});

test("with keys on, a person signs in, and what the key does not allow is not offered", async () => {
  const guarded = await Server.start({ keys: true });
  try {
    await guarded.call("PUT", "/v2/topics/orders", {});
    await guarded.produce("orders", { value: "secret words" });
    const reader = await guarded.post("/v2/keys", { actions: ["read"], note: "on call" });
    const page = await open(chromium, guarded, { hash: "#/messages/orders/0/0" });
    await page.getByLabel("Key").fill("dq_root_nothing");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("no key of DriftQ").waitFor();
    await page.getByLabel("Key").fill(reader.secret);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("This key may not see payloads.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel the message" }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "Keys" }).count(), 0);
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["driftq_session", true, "Strict"]);
    assert.equal(reader.secret.includes(cookie.value), false, "the cookie is not the key");
    const shown = await fetch(`${guarded.url}/v2/topics`, { headers: { cookie: `driftq_session=${cookie.value}`, "sec-fetch-site": "cross-site" } });
    assert.equal(shown.status, 403, "pages of others cannot use it");
    await goTo(page, "#/topics", "Topics");
    await page.getByText("live", { exact: true }).waitFor();
    await guarded.call("DELETE", `/v2/keys/${reader.key.id}`);
    await page.getByRole("button", { name: "Sign in" }).waitFor();

    await page.getByLabel("Key").fill(guarded.root);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("heading", { level: 1, name: "Keys" }).waitFor();
    await page.getByText("on call").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assert.deepEqual(await barriers(page), []);
    assert.deepEqual(page.wrong, []);
  } finally {
    await guarded.stop();
  }
});
