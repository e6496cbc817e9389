// The pictures of docs/dashboard.md; with a folder as the argument, every page in both themes and two sizes.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { browser, DESKTOP, furnish, goTo, open, PHONE, Server } from "./bench.mjs";

const docs = join(dirname(fileURLToPath(import.meta.url)), "../../docs/images");
const folder = process.argv[2];
const PAGES = {
  overview: ["#/", "Overview"],
  topics: ["#/topics", "Topics"],
  topic: ["#/topics/orders", "orders"],
  group: ["#/topics/orders/groups/billing", "billing"],
  messages: ["#/messages?topic=orders", "Messages"],
  message: undefined,
  letters: ["#/letters/orders", "orders"],
  effects: ["#/effects", "Effects"],
  effect: ["#/effects/-/charge/charge-1", "charge · charge-1"],
  run: ["#/runs/trip-7", "trip-7"],
  commit: ["#/commits/trip-7-flights", "Commits"],
  tenants: ["#/tenants", "Tenants"],
  outputs: ["#/outputs/daily", "daily"],
  endpoints: ["#/endpoints/shop", "shop"],
  keys: ["#/keys", "Keys"],
  audit: ["#/audit", "Audit"],
  server: ["#/server", "Server"],
};

const server = await Server.start();
const chromium = await browser();
try {
  await furnish(server);
  // Traffic, so that lines have something to tell.
  const end = Date.now() + (folder ? 4_000 : 25_000);
  for (let turn = 0; Date.now() < end; turn += 1) {
    const many = Array.from({ length: 5 + Math.round(20 * Math.abs(Math.sin(turn / 9))) }, (_, place) => ({ key: `k${place % 7}`, value: `{"turn":${turn}}` }));
    await server.post("/v2/topics/mail/messages", many);
    const leased = await server.lease("mail", "sender", { max: 18 });
    await server.post("/v2/leases/ack", { leases: leased.map((message) => ({ token: message.lease.token })) });
    await new Promise((wake) => setTimeout(wake, 120));
  }
  const { messages } = await server.call("GET", "/v2/topics/orders/messages?state=backoff");
  const [waits] = messages;
  PAGES.message = [`#/messages/orders/${waits.partition}/${waits.offset}`, `${waits.partition}/${waits.offset}`];
  const shot = async (page, name, path) => {
    const [hash, title] = PAGES[name];
    await goTo(page, hash, title);
    await page.locator(".loading").first().waitFor({ state: "detached" });
    await page.waitForTimeout(folder ? 150 : 300);
    await page.screenshot({ path, fullPage: !!folder });
    if (page.wrong.length > 0) throw new Error(page.wrong.join("\n"));
  };
  if (folder) {
    mkdirSync(folder, { recursive: true });
    for (const [size, viewport] of [["phone", PHONE], ["desktop", DESKTOP]]) {
      for (const colorScheme of ["light", "dark"]) {
        const page = await open(chromium, server, { viewport, colorScheme });
        for (const name of Object.keys(PAGES)) await shot(page, name, join(folder, `${size}-${colorScheme}-${name}.png`));
        await page.context().close();
      }
    }
  } else {
    mkdirSync(docs, { recursive: true });
    const viewport = { width: 1200, height: 760 };
    for (const [name, colorScheme] of [["overview", "light"], ["message", "light"], ["effects", "dark"]]) {
      const page = await open(chromium, server, { viewport, colorScheme });
      if (name === "effects") {
        await goTo(page, ...PAGES.effects);
        await page.getByRole("button", { name: "Resolve" }).first().click();
        await page.getByLabel("Who says so").fill("Ada");
        await page.getByLabel("How it is known").fill("the bank's list of today has it");
        await page.screenshot({ path: join(docs, "dashboard-effects.png") });
      } else await shot(page, name, join(docs, `dashboard-${name}.png`));
      await page.context().close();
    }
  }
} finally {
  await chromium.close();
  await server.stop();
}
