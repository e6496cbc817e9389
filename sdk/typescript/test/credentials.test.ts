import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, Retry, Worker } from "../src/index.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";

const ISSUER = "https://driftq.example";

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start({ flags: ["--issuer", ISSUER] });
  client = server.client();
});
afterAll(() => server.stop());

test("a service checks a credential by the published keys, and it ends with its attempt", async () => {
  const keys = createRemoteJWKSet(new URL("/.well-known/jwks.json", server.url));
  await client.admin.createTopic("orders");
  await client.send("orders", { order: 7 }, { tenantId: "acme", runId: "r1" });
  const seen: string[] = [];
  const worker = new Worker(client, "billing").handle("orders", async (_order, ctx) => {
    const credential = await ctx.credential("bank", { ttlMs: 30_000 });
    const { payload } = await jwtVerify(credential, keys, { issuer: ISSUER, audience: "bank" });
    expect(payload).toMatchObject({ attempt: ctx.attempt, tenant: "acme", run: "r1", topic: "orders" });
    await expect(jwtVerify(credential, keys, { audience: "another" })).rejects.toThrow("aud");
    expect((await client.introspect(credential)).active).toBe(true);
    for (const older of seen) expect(await client.introspect(older)).toEqual({ active: false });
    seen.push(credential);
    if (ctx.attempt === 1) throw new Retry("once more", { afterMs: 0 });
  });
  await runUntilIdle(worker);
  expect(seen).toHaveLength(2);
  for (const credential of seen) expect(await client.introspect(credential)).toEqual({ active: false });
  const [first, second] = seen.map((credential) => String(decodeJwt(credential)["fence"]));
  expect(first! < second!).toBe(true);
  const late = client.credential("x", "bank");
  await expect(late).rejects.toMatchObject({ code: "LEASE_UNKNOWN" });
});
