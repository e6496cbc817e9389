// The servers that a client was given, and where a call goes next. Of the servers of a cluster one serves; the others pass
// on what they are asked, which costs them as much again. So a client that was given several asks to be told which one
// serves, and goes there by itself.
import { readFailure } from "./answers.js";
import { ConnectionLost, NotDriftQ, Refused, Unreachable } from "./errors.js";

const SERVERS_MAX = 16;

/** One of the servers. */
export interface Server {
  readonly url: string;
  /** Whether it has answered since calls began to go to it. */
  greeted: boolean;
}

/** A server that does not serve said where to go, and has done nothing. */
export class Redirected extends Error {
  constructor(
    /** None if this runtime keeps it to itself, as a browser does. */
    readonly location: string | undefined,
  ) {
    super("redirected");
  }
}

/** All calls of a client go to the current one of these. */
export class Servers {
  /** All of their URLs, as they can be given. */
  readonly urls: string;
  readonly #all: readonly Server[];
  #current: Server;
  #prefersRedirect: boolean;

  /** Takes one URL, or several with commas between them. */
  constructor(text: string) {
    this.#all = urlsOf(text).map((url) => ({ url, greeted: false }));
    this.#current = this.#all[0]!;
    this.urls = this.#all.map(({ url }) => url).join(",");
    this.#prefersRedirect = this.several;
  }

  get several(): boolean {
    return this.#all.length > 1;
  }

  get count(): number {
    return this.#all.length;
  }

  /** The current one. */
  get server(): Server {
    return this.#current;
  }

  /** Whether requests ask to be told where the serving server is. */
  get prefersRedirect(): boolean {
    return this.#prefersRedirect;
  }

  /**
   * Makes another one current, unless another call has done so already: that one knows more. It is greeted again: what it
   * answered long ago does not say that it is there now.
   */
  turn(from: Server, to: Server): void {
    if (from !== this.#current || to === from) return;
    to.greeted = false;
    this.#current = to;
  }

  /** Makes the next one current. Of many calls that fail at once, one does it: none of the servers is to be skipped. */
  leave(server: Server): void {
    this.turn(server, this.#from(server)[1] ?? server);
  }

  /** For good: the servers name each other by URLs that this client cannot, or may not, follow. */
  stopAsking(): void {
    this.#prefersRedirect = false;
  }

  /** The current one, or the next one after it, that is not among these. */
  besides(others: ReadonlySet<Server>): Server | undefined {
    return this.#from(this.#current).find((server) => !others.has(server));
  }

  /** The one to which a location of this one leads; none if it was not given: a key must go to no other host. */
  at(location: string, from: Server): Server | undefined {
    if (!URL.canParse(location, from.url)) return undefined;
    const { origin, pathname } = new URL(location, from.url);
    const fitting = this.#all.filter(({ url }) => `${origin}${pathname}/`.startsWith(`${url}/`));
    return fitting.sort((one, other) => other.url.length - one.url.length)[0];
  }

  /** All of them, in their order, beginning with this one. */
  #from(server: Server): Server[] {
    const index = this.#all.indexOf(server);
    return [...this.#all.slice(index), ...this.#all.slice(0, index)];
  }
}

/** The way of one try of a call from server to server. */
export class Course {
  readonly #servers: Servers;
  readonly #unreached = new Set<Server>();
  #server: Server;
  #hops = 0;
  #isPassedOn = false;

  constructor(servers: Servers, first: Server) {
    this.#servers = servers;
    this.#server = first;
  }

  /** Where the call goes next. */
  get server(): Server {
    return this.#server;
  }

  /** Whether the next request is to ask where the serving server is. */
  get prefersRedirect(): boolean {
    return this.#servers.prefersRedirect && !this.#isPassedOn;
  }

  /** Told what came of the call at `server`: returns nothing if it goes on at once, else the error with which the try has failed. */
  after(error: unknown): unknown {
    if (error instanceof Redirected) return this.#redirected(error);
    if (error instanceof Unreachable) return this.#unreachable(error);
    if (isAway(error)) this.#servers.leave(this.#server);
    return error;
  }

  #redirected({ location }: Redirected): unknown {
    const named = location === undefined ? undefined : this.#servers.at(location, this.#server);
    if (!named) {
      // The same server passes the call on when it is not asked for a redirect.
      this.#servers.stopAsking();
      return undefined;
    }
    if (this.#hops === this.#servers.count) {
      this.#servers.leave(this.#server);
      return new ConnectionLost(this.#servers.urls, "each server names another one as the one that serves");
    }
    this.#hops += 1;
    this.#servers.turn(this.#server, named);
    this.#server = named;
    return undefined;
  }

  #unreachable({ cause }: Unreachable): unknown {
    this.#servers.leave(this.#server);
    this.#unreached.add(this.#server);
    // The others do not know yet that the one they name is gone. One that is to pass the call on keeps it until another serves.
    this.#isPassedOn = this.#hops > 0;
    const next = this.#servers.besides(this.#unreached);
    if (!next) return readFailure(this.#servers.urls, cause, undefined);
    this.#server = next;
    return undefined;
  }
}

/** Whether the server broke off, or says that it is away, or that no server serves. */
function isAway(error: unknown): boolean {
  if (error instanceof Refused) return error.status === 503;
  if (error instanceof NotDriftQ) return error.gateway;
  return error instanceof ConnectionLost;
}

/** The URLs of a list, each of them once. */
function urlsOf(text: string): string[] {
  const parts = text.split(",");
  if (parts.length === 1) return [checkedUrl(text, text)];
  const urls = parts.map((part, index) => {
    const url = part.trim();
    // Not repeated where it may be half of a password with a comma in it.
    const shown = text.includes("@") || url === "" ? `place ${index + 1} of the list` : url;
    if (url === "") throw new Unreachable(shown, "it is empty; a comma stands between two URLs only");
    return checkedUrl(url, shown);
  });
  const once = [...new Set(urls)];
  if (once.length > SERVERS_MAX) throw new Unreachable(once[SERVERS_MAX]!, `${once.length} servers are given, and ${SERVERS_MAX} is the most`);
  return once;
}

/** The URL as it is used; `shown` stands for one that cannot be read. */
function checkedUrl(text: string, shown: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw new Unreachable(shown, "this is no URL; it has to look like http://127.0.0.1:8080", { cause: error });
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new Unreachable(shown, `a server is reached by http or https, not by ${url.protocol}`);
  }
  // The text is not repeated: what is in front of the @ may be a password.
  if (url.username || url.password) {
    throw new Unreachable(url.host, "its URL names a user, and a DriftQ server knows none: leave user and password out");
  }
  return url.href.replace(/[?#].*$/, "").replace(/\/+$/, "");
}
