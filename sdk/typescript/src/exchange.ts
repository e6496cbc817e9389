import { isNode } from "./platform.js";
import type { Method } from "./transport.js";

/** What came back. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | undefined;
}

/** One try of a call that is under way. */
export interface Exchange {
  readonly answer: Promise<Answer>;
  /** Ends it: the answer rejects, unless it was there already. */
  cut(): void;
}

/**
 * A way to reach a server; `text` is JSON, `key` is shown to a server that asks for one. With `prefersRedirect` the request
 * carries `prefer: redirect`, and a redirect is given back as the answer that it is; a way that does not know of it leaves it
 * to the servers to pass calls on.
 */
export type Send = (method: Method, url: string, text: string | undefined, key?: string, prefersRedirect?: boolean) => Exchange;

export const JSON_TYPE = "application/json";
/** Asks a server that does not serve to say where the one is that does. */
export const REDIRECT = "redirect";

/** Any fetch as a way to reach a server. */
export function byFetch(fetcher: typeof fetch): Send {
  return (method, url, text, key, prefersRedirect) => {
    const controller = new AbortController();
    const init: RequestInit = { method, signal: controller.signal, redirect: prefersRedirect ? "manual" : "error" };
    const headers: Record<string, string> = {};
    if (key !== undefined) headers.authorization = `Bearer ${key}`;
    if (prefersRedirect) headers.prefer = REDIRECT;
    if (text !== undefined) {
      init.body = text;
      headers["content-type"] = JSON_TYPE;
    }
    init.headers = headers;
    return { answer: answerOf(fetcher, url, init), cut: () => controller.abort() };
  };
}

async function answerOf(fetcher: typeof fetch, url: string, init: RequestInit): Promise<Answer> {
  const response = await fetcher(url, init);
  const text = await response.text();
  // Node's fetch lets go of a connection in the turn after the answer. A caller that made the next call before that
  // would get another one: twice as many connections, and calls that take more processor time.
  await new Promise((resolve) => setImmediate(resolve));
  return { status: response.status, text, header: (name) => response.headers.get(name) ?? undefined };
}

/**
 * By Node's own HTTP client where there is one, else by fetch. It is loaded with the first call: a runtime that has no such
 * module goes by fetch, and need not know it.
 */
export function byDefault(): Send {
  const fetched = byFetch(fetch);
  if (!isNode()) return fetched;
  let send: Send | undefined;
  let loading: Promise<Send> | undefined;
  const load = async () => (send = await import("./node-http.js").then(({ byNodeHttp }) => byNodeHttp, () => fetched));
  return (...call) => (send ? send(...call) : later((loading ??= load()), call));
}

/** An exchange by a way that is being loaded. */
function later(loading: Promise<Send>, call: Parameters<Send>): Exchange {
  let exchange: Exchange | undefined;
  let isCut = false;
  const answer = loading.then((send) => {
    if (isCut) throw new Error("the call was given up before it was sent");
    exchange = send(...call);
    return exchange.answer;
  });
  const cut = () => {
    isCut = true;
    exchange?.cut();
  };
  return { answer, cut };
}
