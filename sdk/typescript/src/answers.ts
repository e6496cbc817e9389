import { ConnectionLost, NotDriftQ, Unreachable } from "./errors.js";
import type { DriftQError, Problem } from "./errors.js";
import { refusal } from "./refusals.js";

/** What fetch says in `cause.code` if no connection came about. */
const UNREACHED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** What a gateway says whose server is away. */
const GATEWAY = new Set([429, 502, 503, 504]);

/** The document of an answer; a refusal is thrown. */
export function readAnswer<T>(url: string, response: Response, text: string): T {
  if (response.ok) return response.status === 204 ? (undefined as T) : (readJson(url, response, text) as T);
  const problem = readProblem(text);
  if (!problem) {
    throw new NotDriftQ(url, `it answered ${response.status} without a reason`, GATEWAY.has(response.status));
  }
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  if (problem.retry_after_ms == null && seconds >= 0) problem.retry_after_ms = seconds * 1_000;
  throw refusal(problem, response.headers.get("x-request-id") ?? undefined);
}

function readJson(url: string, response: Response, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new NotDriftQ(url, `it answered ${response.status} with something that is no JSON`, false, { cause: error });
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

/** The error for a call that got no answer. `timeout` says that we gave it up ourselves. */
export function readFailure(url: string, error: unknown, timeout: string | undefined): DriftQError {
  if (timeout) return new ConnectionLost(url, timeout, { cause: error });
  const cause = (error as { cause?: { code?: unknown; message?: unknown } } | undefined)?.cause;
  const code = typeof cause?.code === "string" ? cause.code : "";
  const why = code || String(cause?.message ?? (error as Error)?.message ?? error);
  if (UNREACHED.has(code) || why === "bad port") return new Unreachable(url, why, { cause: error });
  if (code.startsWith("HPE_") || why.includes("redirect")) return new NotDriftQ(url, why, false, { cause: error });
  return new ConnectionLost(url, why, { cause: error });
}
