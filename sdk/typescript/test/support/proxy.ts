import { createServer, request, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer, request as requestSecurely } from "node:https";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer, type Socket } from "node:net";

/**
 * What a proxy does with a call: hand it on; do so and cut the connection before the answer, or keep the answer to
 * itself; never hand it on, and cut the connection or not; or answer itself.
 */
export type Deed = "pass" | "lose_answer" | "lose_request" | "swallow" | "hang" | { status: number; body: string; headers?: Record<string, string> };

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
}

/** A certificate with its key, in PEM. */
export interface Identity {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Stands between a client and a server, and spoils what it is told to. */
export class Proxy {
  readonly seen: Seen[] = [];
  /** Connections that clients have made. */
  connections = 0;
  deed: (call: Seen) => Deed | Promise<Deed> = () => "pass";
  /** The body that is handed on. */
  rewrite: (call: Seen) => string = ({ body }) => body;
  /** Called when an answer has come that the client does not get. */
  onSwallowed: () => void = () => undefined;
  readonly #cuts: { path: RegExp; heard: () => void }[] = [];
  readonly #server: Server;

  private constructor(
    private readonly target: string,
    private readonly identity: Identity | undefined,
  ) {
    const handle = (incoming: IncomingMessage, outgoing: ServerResponse) => void this.#handle(incoming, outgoing);
    this.#server = identity ? createSecureServer(identity, handle) : createServer(handle);
    this.#server.on("connection", () => (this.connections += 1));
  }

  /** With an identity it speaks TLS with both sides. */
  static async before(target: string, identity?: Identity): Promise<Proxy> {
    const proxy = new Proxy(target, identity);
    await listen(proxy.#server);
    return proxy;
  }

  get url(): string {
    return `${this.identity ? "https" : "http"}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How many calls of this path were seen. */
  count(path: RegExp): number {
    return this.seen.filter((call) => path.test(call.path)).length;
  }

  /** Ends when a client has gone away from a call of this path before its answer. */
  nextCut(path: RegExp): Promise<void> {
    return new Promise((heard) => this.#cuts.push({ path, heard }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of incoming) parts.push(part as Buffer);
    const call = { method: incoming.method ?? "", path: incoming.url ?? "", body: Buffer.concat(parts).toString(), headers: incoming.headers };
    this.seen.push(call);
    outgoing.on("close", () => {
      if (!outgoing.writableEnded) for (const cut of this.#cuts) if (cut.path.test(call.path)) cut.heard();
    });
    const deed = await this.deed(call);
    if (deed === "hang") return;
    if (deed === "lose_request") {
      outgoing.destroy();
      return;
    }
    if (typeof deed === "object") {
      outgoing.writeHead(deed.status, { "content-type": "application/problem+json", ...deed.headers }).end(deed.body);
      return;
    }
    const { authorization } = incoming.headers;
    const headers = { "content-type": "application/json", ...(authorization === undefined ? {} : { authorization }) };
    const ask = this.identity ? requestSecurely : request;
    const forward = ask(this.target + call.path, { method: call.method, headers }, (answer) => {
      const body: Buffer[] = [];
      answer.on("data", (part: Buffer) => body.push(part));
      answer.on("end", () => {
        if (deed === "swallow") this.onSwallowed();
        else if (deed === "lose_answer") outgoing.destroy();
        else outgoing.writeHead(answer.statusCode ?? 500, answer.headers).end(Buffer.concat(body));
      });
    });
    forward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forward.destroy());
    forward.end(this.rewrite(call));
  }
}

/** Something that listens and is no DriftQ server. */
export class Stranger {
  readonly #server: Server | TcpServer;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server | TcpServer) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket)).on("error", () => undefined);
    });
  }

  /** Answers every HTTP request so. */
  static async http(status: number, body: string, headers: Record<string, string> = {}): Promise<Stranger> {
    const stranger = new Stranger(createServer((_incoming, outgoing) => outgoing.writeHead(status, headers).end(body)));
    await listen(stranger.#server);
    return stranger;
  }

  /** Waits until it is asked, says this, or nothing, and hangs up or keeps the connection open. */
  static async tcp(banner: string, hangsUp = false): Promise<Stranger> {
    const server = createTcpServer((socket) => {
      socket.once("data", () => (hangsUp ? socket.end(banner) : socket.write(banner)));
    });
    const stranger = new Stranger(server);
    await listen(stranger.#server);
    return stranger;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Where nobody listens. Not a port that was free a moment ago: another test may have it by now. */
export const closedUrl = "http://127.0.0.1:2";

function listen(server: Server | TcpServer): Promise<void> {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
}
