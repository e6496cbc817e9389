import { ConnectionLost, NotDriftQ, Unreachable, Untrusted } from "./errors.js";
import type { DriftQError, Problem } from "./errors.js";
import type { Answer } from "./exchange.js";
import { refusal } from "./refusals.js";

/** The codes of errors that mean that no connection was made. */
const UNREACHED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** What to do about a certificate that has a single thing wrong with it. */
const CERTIFICATE_NEXT = new Map([
  ["CERT_HAS_EXPIRED", "It has expired: renew it, and check the clock of this machine"],
  ["CERT_NOT_YET_VALID", "It is not valid yet: check the clock of this machine"],
  ["CERT_REVOKED", "It was revoked: give the server another one"],
  ["CERT_REJECTED", "It is marked as one to reject: give the server another one"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "It is for other names: reach the server by one of those, or give it a certificate for this one"],
]);

/** The codes for a certificate whose signer is not trusted here. */
const CERTIFICATE_UNKNOWN = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_CHAIN_TOO_LONG",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
]);
const SIGNED_NEXT = "Have it signed by an authority that is trusted here, or name the authority's certificate (a file) in NODE_EXTRA_CA_CERTS";

/** The statuses of a gateway whose server is away. */
const GATEWAY = new Set([429, 502, 503, 504]);

/** The document of an answer; a refusal is thrown. */
export function readAnswer<T>(url: string, answer: Answer, glance?: (text: string) => unknown): T {
  const { status, text } = answer;
  if (status === 204) return undefined as T;
  if (status >= 200 && status < 300) return (glance?.(text) ?? readJson(url, answer)) as T;
  const problem = readProblem(text);
  if (!problem) throw new NotDriftQ(url, `it answered ${status} without a reason`, GATEWAY.has(status));
  const seconds = Number(answer.header("retry-after") ?? Number.NaN);
  if (problem.retry_after_ms == null && seconds >= 0) problem.retry_after_ms = seconds * 1_000;
  throw refusal(problem, answer.header("x-request-id"));
}

function readJson(url: string, { status, text }: Answer): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new NotDriftQ(url, `it answered ${status} with something that is no JSON`, false, { cause: error });
  }
}

function readProblem(text: string): Problem | undefined {
  try {
    const problem: unknown = JSON.parse(text);
    return isProblem(problem) ? problem : undefined;
  } catch {
    return undefined;
  }
}

function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const problem = value as Partial<Problem>;
  return typeof problem.code === "string" && typeof problem.status === "number" && typeof problem.retryable === "boolean";
}

/** The error for a call that got no answer. `timeout` is given if this client gave it up itself. */
export function readFailure(url: string, error: unknown, timeout: string | undefined): DriftQError {
  if (timeout) return new ConnectionLost(url, timeout, { cause: error });
  // fetch says it in the cause of its error.
  const cause = ((error as Error | undefined)?.cause ?? error) as { code?: unknown; message?: unknown } | undefined;
  const code = typeof cause?.code === "string" ? cause.code : "";
  const why = code || String(cause?.message ?? error);
  if (UNREACHED.has(code) || why === "bad port") return new Unreachable(url, why, { cause: error });
  const next = CERTIFICATE_NEXT.get(code) ?? (CERTIFICATE_UNKNOWN.has(code) ? SIGNED_NEXT : undefined);
  if (next) return new Untrusted(url, code, next, { cause: error });
  if (code.startsWith("HPE_") || why.includes("redirect")) return new NotDriftQ(url, why, false, { cause: error });
  return new ConnectionLost(url, why, { cause: error });
}
