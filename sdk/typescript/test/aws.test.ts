import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { AwsCredentials, type AwsOptions, type Client, type Context, StsRefused, StsUnanswered, Worker } from "../src/index.js";
import { endpointOf, roleOf, sessionName, type Place } from "../src/aws.js";
import { ANSWER_BYTES_MAX, assume, readAnswer } from "../src/sts.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { Sts, type Said } from "./support/sts.js";

const ISSUER = "https://driftq.example";
const ROLE = "arn:aws:iam::123456789012:role/billing";
const CREDENTIAL = "head.claims.signature";

interface Examples {
  answers: {
    name: string;
    status: number;
    body: string;
    credentials?: Record<string, string>;
    refused?: { code: string; detail: string; request_id: string | null; retryable: boolean };
    strange?: string;
    retryable?: boolean;
  }[];
  session_names: (Place & { name: string })[];
}
const examples = JSON.parse(readFileSync(new URL("../../../tests/sts.json", import.meta.url), "utf8")) as Examples;

let server: TestServer;
let client: Client;
let sts: Sts;
let topics = 0;
beforeAll(async () => {
  server = await TestServer.start({ flags: ["--issuer", ISSUER] });
  client = server.client();
});
afterAll(() => server.stop());
beforeEach(async () => {
  sts = await Sts.start(ISSUER, server.url, "sts.amazonaws.com", ROLE);
  vi.stubEnv("AWS_ENDPOINT_URL_STS", sts.url);
  for (const name of ["AWS_REGION", "AWS_DEFAULT_REGION"]) vi.stubEnv(name, "");
});
afterEach(() => {
  sts.stop();
  vi.unstubAllEnvs();
});

/** What a handler gets or is told, asked once. */
async function asked(ask: (ctx: Context) => Promise<AwsCredentials>): Promise<unknown> {
  const topic = `aws-${(topics += 1)}`;
  await client.admin.createTopic(topic);
  await client.send(topic, 1);
  const outcomes: unknown[] = [];
  // The lease is longer than a credential for STS is good for.
  const worker = new Worker(client, "g", { leaseMs: 600_000 }).handle(topic, async (_payload, ctx) => {
    outcomes.push(await ask(ctx).catch((error: unknown) => error));
  });
  await runUntilIdle(worker);
  expect(outcomes).toHaveLength(1);
  return outcomes[0];
}

test("a role is assumed by an attempt, and nothing secret is shown", async () => {
  const found = (await asked((ctx) => ctx.awsCredentials(ROLE, { durationMs: 900_000 }))) as AwsCredentials;
  expect(found).toBeInstanceOf(AwsCredentials);
  expect({ ...found }).toMatchObject({ accessKeyId: "ASIAEXAMPLE", secretAccessKey: "secret/example", sessionToken: "session+example==" });
  const leftMs = found.expiration.getTime() - Date.now();
  expect(leftMs).toBeGreaterThan(60_000);
  expect(leftMs).toBeLessThanOrEqual(900_000);
  for (const shown of [inspect(found), `${found}`, JSON.stringify({ found })]) {
    expect(shown).toContain("ASIAEXAMPLE");
    expect(shown).not.toMatch(/secret\/example|session\+example/);
  }
  expect(sts.asked[0]).toMatchObject({ RoleSessionName: `driftq-aws-${topics}-0-0-1`, DurationSeconds: "900" });
  expect(sts.claims[0]).toMatchObject({ topic: `aws-${topics}`, attempt: 1 });
  expect(sts.claims[0]!.exp! - sts.claims[0]!.iat!).toBeLessThanOrEqual(60);
});

test("what STS refuses has STS's code", async () => {
  const audience = await asked((ctx) => ctx.awsCredentials(ROLE, { audience: "another" }));
  expect(audience).toBeInstanceOf(StsRefused);
  expect(audience).toMatchObject({ name: "StsRefused", code: "InvalidIdentityToken", detail: "Incorrect token aud", status: 400, requestId: "r-1", retryable: false });
  expect(inspect(audience)).not.toContain(sts.asked[0]!["WebIdentityToken"]);
  const role = await asked((ctx) => ctx.awsCredentials(`${ROLE}2`, { sessionName: "anna@example.com" }));
  expect(role).toMatchObject({ code: "AccessDenied", status: 403 });
  expect(sts.asked[1]).toMatchObject({ RoleSessionName: "anna@example.com" });
  expect(sts.asked[1]).not.toHaveProperty("DurationSeconds");
  expect(sts.claims).toEqual([]);
});

test.each<[Said, string]>([
  [[200, `<a>${" ".repeat(ANSWER_BYTES_MAX)}`], "more than 65536 bytes"],
  [[200, "It works!"], "is not XML"],
  [[502, "<html></html>"], "gave 502"],
  [[302, ""], "gave 302"],
])("what is no answer of STS: %#", async (said, words) => {
  sts.answer = said;
  const error = await asked((ctx) => ctx.awsCredentials(ROLE));
  expect(error).toBeInstanceOf(StsUnanswered);
  expect(error).toMatchObject({ name: "StsUnanswered", retryable: said[0] === 502 });
  expect((error as Error).message).toContain(words);
  expect((error as Error).message).toContain(sts.url);
});

test("nobody answers, or not in time", async () => {
  // It reads, and says nothing.
  const silent = createServer((socket) => socket.on("error", () => undefined).resume());
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
  const role = roleOf(ROLE, { topic: "orders", partition: 0, offset: 17, attempt: 1 }, { endpoint: url });
  await expect(assume(role, CREDENTIAL, 100)).rejects.toMatchObject({ name: "StsUnanswered", retryable: true, message: expect.stringContaining(url) });
  await new Promise((resolve) => silent.close(resolve));
  await expect(assume(role, CREDENTIAL)).rejects.toMatchObject({ name: "StsUnanswered", retryable: true, message: expect.stringContaining("ECONNREFUSED") });
});

test.each<[AwsOptions, string]>([
  [{ sessionName: "a b" }, "sessionName"],
  [{ sessionName: "x".repeat(65) }, "sessionName"],
  [{ durationMs: 899_000 }, "900000"],
  [{ durationMs: 43_201_000 }, "43200000"],
  [{ region: "evil.example/" }, "region"],
  [{ endpoint: "https://me:hunter2@sts.example" }, "endpoint"],
  [{ endpoint: "ftp://sts.example" }, "endpoint"],
  [{ duration: 900 } as AwsOptions, "durationMs"],
])("what cannot be asked is told before anything is sent: %j", (options, words) => {
  vi.stubEnv("AWS_ENDPOINT_URL_STS", "");
  const ask = () => roleOf(ROLE, { topic: "orders", partition: 0, offset: 17, attempt: 1 }, options);
  expect(ask).toThrow(words);
  expect(ask).not.toThrow("hunter2");
});

test("where STS is", () => {
  vi.stubEnv("AWS_ENDPOINT_URL_STS", "");
  expect(endpointOf(undefined, undefined)).toBe("https://sts.amazonaws.com/");
  vi.stubEnv("AWS_DEFAULT_REGION", "eu-west-1");
  expect(endpointOf(undefined, undefined)).toBe("https://sts.eu-west-1.amazonaws.com/");
  vi.stubEnv("AWS_REGION", "eu-central-1");
  expect(endpointOf(undefined, undefined)).toBe("https://sts.eu-central-1.amazonaws.com/");
  expect(endpointOf("cn-north-1", undefined)).toBe("https://sts.cn-north-1.amazonaws.com.cn/");
  vi.stubEnv("AWS_ENDPOINT_URL_STS", "http://localhost:4566");
  expect(endpointOf("cn-north-1", undefined)).toBe("http://localhost:4566/");
  expect(endpointOf(undefined, "https://vpce-1.example/sts")).toBe("https://vpce-1.example/sts");
});

describe("the examples that every SDK reads alike", () => {
  test.each(examples.answers)("$name", ({ status, body, credentials, refused, strange, retryable }) => {
    const read = () => readAnswer("http://sts", status, body, CREDENTIAL);
    if (credentials) {
      const { access_key_id: accessKeyId, secret_access_key: secretAccessKey, session_token: sessionToken, expiration } = credentials;
      expect({ ...read() }).toEqual({ accessKeyId, secretAccessKey, sessionToken, expiration: new Date(expiration!) });
      return;
    }
    let error: unknown;
    try {
      read();
    } catch (thrown) {
      error = thrown;
    }
    if (refused) {
      const { request_id: requestId, ...rest } = refused;
      expect(error).toBeInstanceOf(StsRefused);
      expect(error).toMatchObject({ ...rest, requestId: requestId ?? undefined });
      expect(String(error)).not.toContain(CREDENTIAL);
    } else {
      expect(error).toBeInstanceOf(StsUnanswered);
      expect(error).toMatchObject({ retryable });
      expect(String(error)).toContain(strange);
    }
  });

  test.each(examples.session_names)("$name", ({ name, ...place }) => expect(sessionName(place)).toBe(name));
});
