import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";

const secret = () => `whsec_${randomBytes(32).toString("base64")}`;
const [OLD, NEW, FOREIGN] = [secret(), secret(), secret()];

interface Received {
  body: string;
  headers: Record<string, string>;
}

/** Takes whatever comes, and hands it on to whoever waits for it. */
const waiting: ((received: Received) => void)[] = [];
const receiver = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  response.writeHead(204).end();
  waiting.shift()?.({ body: Buffer.concat(parts).toString(), headers: plain(request.headers) });
});

function plain(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

let server: TestServer;
let client: Client;
let connector: ChildProcess;
const folder = mkdtempSync(join(tmpdir(), "driftq-connect-"));

/** A server beside which a connector runs, as an operator starts it. */
beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  server = await TestServer.start();
  client = server.client();
  const file = join(folder, "connect.toml");
  writeFileSync(file, '[deliveries]\nallow = ["127.0.0.0/8"]\n');
  const env = { ...process.env, OLD_SECRET: OLD, NEW_SECRET: NEW };
  const binary = process.env["DRIFTQ_BIN"] || "driftq";
  connector = spawn(binary, ["connect", "run", file, "--server", server.url], { env, stdio: "ignore" });
});
afterAll(async () => {
  const ended = new Promise((resolve) => connector.once("exit", resolve));
  connector.kill("SIGTERM");
  expect(await ended, "the connector drains").toBe(0);
  await server.stop();
  receiver.close();
  rmSync(folder, { recursive: true });
});

/** What is received of a delivery to an endpoint with these secrets. */
async function sent(endpoint: string, body: unknown, ...names: string[]): Promise<Received> {
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`;
  const received = new Promise<Received>((resolve) => waiting.push(resolve));
  await client.call("PUT", `/v2/endpoints/${endpoint}`, { body: { kind: "webhook", url, secrets: names.map((env) => ({ env })) } });
  await client.call("POST", "/v2/deliveries", { body: { delivery_id: [endpoint, ...names].join("-"), endpoint, body } });
  return received;
}

test.each([
  ["plain", { type: "order.paid", order: 7 }],
  ["unicode", { type: "order.paid", name: 'Zoë 🦊 \u2028 "é"' }],
])("the library takes what is sent and nothing else: %s", async (endpoint, body) => {
  const { body: data, headers } = await sent(endpoint, body, "OLD_SECRET");
  expect(new Webhook(OLD!).verify(data, headers)).toEqual(body);
  expect(() => new Webhook(FOREIGN!).verify(data, headers)).toThrow(WebhookVerificationError);
  expect(() => new Webhook(OLD!).verify(data.replace("order.paid", "order.lost"), headers)).toThrow(WebhookVerificationError);
  expect(() => new Webhook(OLD!).verify(data, { ...headers, "webhook-id": `${headers["webhook-id"]}x` })).toThrow(WebhookVerificationError);
});

test("while secrets are exchanged, both sign", async () => {
  const body = { type: "order.paid", order: 8 };
  const both = await sent("rotated", body, "NEW_SECRET", "OLD_SECRET");
  for (const known of [OLD!, NEW!]) expect(new Webhook(known).verify(both.body, both.headers)).toEqual(body);
  const one = await sent("rotated", body, "NEW_SECRET");
  expect(new Webhook(NEW!).verify(one.body, one.headers)).toEqual(body);
  expect(() => new Webhook(OLD!).verify(one.body, one.headers)).toThrow(WebhookVerificationError);
});
