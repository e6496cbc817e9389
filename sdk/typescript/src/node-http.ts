// Node's own HTTP client: a call by it takes a fraction of the processor time of Node's fetch; the benchmark measures both.
import * as http from "node:http";
import * as https from "node:https";
import { rootCertificates } from "node:tls";
import { urlToHttpOptions } from "node:url";
import { JSON_TYPE, REDIRECT, type Answer, type Exchange, type Send } from "./exchange.js";
import type { Method } from "./transport.js";

/** Connections that were idle for this long are closed, before the server does so in the middle of the next call. */
const IDLE_MS = 4_000;

/** How many connections to one server are kept open between calls. */
const IDLE_CONNECTIONS_MAX = 256;

const connections: http.AgentOptions = {
  keepAlive: true,
  scheduling: "lifo",
  timeout: IDLE_MS,
  maxFreeSockets: IDLE_CONNECTIONS_MAX,
};
const plain = { request: http.request, agent: new http.Agent(connections) };
const secure = { request: https.request, agent: new https.Agent(connections) };

export const byNodeHttp: Send = (...call) => exchange(secure, ...call);

/** The same, with authorities trusted besides those that Node comes with: the text of a file in PEM. */
export function byNodeHttpTrusting(authorities: string | Buffer): Send {
  if (!String(authorities).includes("-----BEGIN CERTIFICATE-----")) {
    throw new TypeError("the authorities to trust are no certificates in PEM: give what the file holds, not its name");
  }
  const agent = new https.Agent({ ...connections, ca: [...rootCertificates, authorities] });
  return (...call) => exchange({ request: https.request, agent }, ...call);
}

function exchange(
  tls: typeof secure,
  method: Method,
  url: string,
  text: string | undefined,
  key?: string,
  prefersRedirect?: boolean,
): Exchange {
  const target = targetOf(url);
  const { request, agent } = target.protocol === "https:" ? tls : plain;
  // As bytes: Node takes twice as long to write a long text.
  const bytes = text === undefined ? undefined : Buffer.from(text, "utf8");
  const headers: http.OutgoingHttpHeaders =
    bytes === undefined ? {} : { "content-type": JSON_TYPE, "content-length": bytes.length };
  if (key !== undefined) headers.authorization = `Bearer ${key}`;
  if (prefersRedirect) headers.prefer = REDIRECT;
  const call = request({ ...target, method, agent, headers });
  const answer = answerTo(call);
  call.end(bytes);
  return { answer, cut: () => call.destroy() };
}

/** The URLs that were asked last, as Node takes them apart. */
const targets = new Map<string, Target>();
const TARGETS_KEPT = 64;

type Target = Pick<http.RequestOptions, "protocol" | "hostname" | "port" | "path">;

/** Kept, because the same few are asked again and again. */
function targetOf(url: string): Target {
  let target = targets.get(url);
  if (!target) {
    const { protocol, hostname, port, path } = urlToHttpOptions(new URL(url)) as Target;
    target = { protocol, hostname, port, path };
    if (targets.size === TARGETS_KEPT) targets.clear();
    targets.set(url, target);
  }
  return target;
}

function answerTo(call: http.ClientRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let ended = false;
    call.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => {
        ended = true;
        resolve(read(response, parts));
      });
    });
    call.on("error", reject);
    // This event comes last, and also when no other does.
    call.on("close", () => {
      if (!ended) reject(new Error("the connection was closed before the answer had come"));
    });
  });
}

function read(response: http.IncomingMessage, parts: Buffer[]): Answer {
  const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  return {
    status: response.statusCode ?? 0,
    text: bytes.toString("utf8"),
    header: (name) => {
      const value = response.headers[name];
      return typeof value === "string" ? value : value?.[0];
    },
  };
}
