// The public API, as any other client uses it.

import { Exact, parse } from "./json";
import type { Page, Session } from "./types";

/** A refusal, in the server's words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly help: string,
  ) {
    super(detail);
  }
}

/** Whether the server could not be asked at all. */
export const isAway = (error: unknown): boolean => error instanceof Problem && error.status === 0;

let onSignedOut = () => {};

/** Is called when the server no longer knows who asks. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

export type Query = { [name: string]: string | number | undefined };

/** A path of names, each of which may hold any character. */
export const path = (...names: (string | number | Exact)[]): string =>
  "/v2/" + names.map((name) => encodeURIComponent(String(name))).join("/");

export async function call<T>(method: string, where: string, query: Query = {}, body?: unknown): Promise<T> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(where + (search ? `?${search}` : ""), {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, "AWAY", "the server does not answer", "The page goes on by itself when it does.");
  }
  const text = await answer.text();
  if (answer.ok) return (text ? parse(text) : undefined) as T;
  if (answer.status === 401) onSignedOut();
  throw problem(answer.status, text);
}

function problem(status: number, text: string): Problem {
  try {
    const told = parse(text) as { code?: string; detail?: string; help?: string };
    return new Problem(status, told.code ?? "", told.detail ?? `status ${status}`, told.help ?? "");
  } catch {
    return new Problem(status, "", `the server answered with status ${status}`, "");
  }
}

export const get = <T>(where: string, query?: Query): Promise<T> => call<T>("GET", where, query);
export const post = <T>(where: string, body: unknown = {}): Promise<T> => call<T>("POST", where, {}, body);

/** The pages of a list until there are enough. */
export async function pages<T, K extends string>(
  where: string,
  field: K,
  query: Query,
  most: number,
): Promise<{ rows: T[]; more: boolean }> {
  const rows: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await get<Page<T, K>>(where, { ...query, limit: Math.min(most, 100), cursor });
    rows.push(...page[field]);
    cursor = page.cursor ?? undefined;
  } while (cursor && rows.length < most);
  return { rows, more: cursor !== undefined };
}

export const whoAmI = (): Promise<Session> => get<Session>("/v2/session");
