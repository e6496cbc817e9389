// Asks AWS's STS for a role by a credential of an attempt (`AssumeRoleWithWebIdentity`). One try: what may pass is told by the
// error, and the message's own retries follow.
import { AwsCredentials, type Role } from "./aws.js";
import { StsRefused, StsUnanswered } from "./errors.js";
import { reasonText } from "./texts.js";

/** STS reads the credential at once: one that leaks on the way is of no use a minute later. */
export const CREDENTIAL_TTL_MS = 60_000;
const TIMEOUT_MS = 10_000;
/** STS's own answers have a few KiB. */
export const ANSWER_BYTES_MAX = 64 * 1024;
const DETAIL_CHARACTERS_MAX = 1_000;
/** STS could not read the issuer's keys, or has too much to do. */
const PASSING_CODES = new Set(["IDPCommunicationError", "Throttling", "ThrottlingException", "RequestLimitExceeded"]);

export async function assume(role: Role, credential: string, timeoutMs: number = TIMEOUT_MS): Promise<AwsCredentials> {
  const body = new URLSearchParams({ ...role.fields, WebIdentityToken: credential });
  let status: number;
  let text: string | undefined;
  try {
    // fetch sends the form as `application/x-www-form-urlencoded`. A redirect would carry the credential elsewhere.
    const answer = await fetch(role.url, { method: "POST", body, redirect: "manual", signal: AbortSignal.timeout(timeoutMs) });
    status = answer.status;
    text = await bounded(answer);
  } catch (error) {
    throw new StsUnanswered(`no answer of STS at ${role.url} (${whyOf(error)}); it is safe to ask again`, true);
  }
  if (text === undefined) throw strange(role.url, status, `its answer has more than ${ANSWER_BYTES_MAX} bytes`);
  return readAnswer(role.url, status, text, credential);
}

/** The whole body, or nothing if it is too large. */
async function bounded(answer: Response): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let size = 0;
  let text = "";
  // Leaving the loop closes the connection.
  for await (const part of answer.body ?? []) {
    size += part.byteLength;
    if (size > ANSWER_BYTES_MAX) return undefined;
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

/** fetch says only that it failed; what the system said is the cause. */
function whyOf(error: unknown): string {
  return reasonText(error instanceof Error && error.cause instanceof Error ? error.cause : error);
}

/** The credentials; throws what STS refused, and what is no answer of STS's. */
export function readAnswer(url: string, status: number, text: string, credential: string): AwsCredentials {
  // STS sends no document type, and what one can declare is of no good here.
  if (!/^\s*(<\?xml[^>]*>\s*)?<\w/.test(text) || text.includes("<!DOCTYPE")) throw strange(url, status, "its answer is not XML");
  if (status === 200) return readCredentials(url, text);
  const refused = element(text, "Error") ?? "";
  const code = content(refused, "Code");
  if (!code) throw strange(url, status, "its refusal has no code");
  const detail = content(refused, "Message").replaceAll(credential, "[credential]").slice(0, DETAIL_CHARACTERS_MAX);
  throw new StsRefused(code, detail, status, content(text, "RequestId") || undefined, isPassing(status) || PASSING_CODES.has(code));
}

function readCredentials(url: string, text: string): AwsCredentials {
  // Only of an answer that is whole: one that breaks off has no end of its root.
  const root = element(text, "AssumeRoleWithWebIdentityResponse") ?? "";
  const found = element(element(root, "AssumeRoleWithWebIdentityResult") ?? "", "Credentials");
  if (found === undefined) throw strange(url, 200, "its answer has no credentials");
  const [key, secret, token, ends] = ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"].map((name) => content(found, name));
  const expiration = new Date(ends ?? "");
  if (!key || !secret || !token || Number.isNaN(expiration.getTime())) throw strange(url, 200, "its credentials are not complete");
  return new AwsCredentials(key, secret, token, expiration);
}

function isPassing(status: number): boolean {
  return status === 429 || status >= 500;
}

function strange(url: string, status: number, why: string): StsUnanswered {
  return new StsUnanswered(`what answers at ${url} does not speak STS: it gave ${status}, and ${why}; check the endpoint`, isPassing(status));
}

/**
 * What is between the tags of the first element of that name. STS nests no element in one of its own name, and uses neither
 * prefixes nor sections, so that a parser of all of XML is not needed.
 */
function element(text: string, name: string): string | undefined {
  const start = new RegExp(`<${name}(\\s[^>]*)?>`).exec(text);
  if (!start || start[0].endsWith("/>")) return undefined;
  const from = start.index + start[0].length;
  const to = text.indexOf(`</${name}>`, from);
  return to < 0 ? undefined : text.slice(from, to);
}

/** The text of an element that has no others in it; empty if there is none. */
function content(text: string, name: string): string {
  const found = element(text, name) ?? "";
  return found.includes("<") ? "" : found.replace(/&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|lt|gt|amp|quot|apos);/g, unescaped).trim();
}

const NAMED: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function unescaped(whole: string, name: string): string {
  if (!name.startsWith("#")) return NAMED[name] ?? whole;
  const point = name.startsWith("#x") ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10);
  return point > 0x10ffff ? whole : String.fromCodePoint(point);
}
