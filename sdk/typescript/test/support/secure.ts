import { readFileSync } from "node:fs";
import { connect, type AddressInfo, type Socket } from "node:net";
import { createServer, type Server } from "node:tls";
import { fileURLToPath } from "node:url";

export type Certificate = "self-signed" | "expired";

export function certificateFile(certificate: Certificate): string {
  return fileURLToPath(new URL(`tls/${certificate}.pem`, import.meta.url));
}

const key = readFileSync(new URL("tls/key.pem", import.meta.url));

/** Speaks TLS with clients, and hands on what they say to a server that does not. */
export class SecureProxy {
  /** Connections that were begun, in trust or not. */
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(target: string, certificate: Certificate) {
    const { hostname, port } = new URL(target);
    this.#server = createServer({ key, cert: readFileSync(certificateFile(certificate)) }, (socket) => {
      const forward = connect(Number(port), hostname);
      this.#keep(forward);
      socket.on("error", () => undefined).on("close", () => forward.destroy());
      forward.on("close", () => socket.destroy());
      socket.pipe(forward).pipe(socket);
    });
    this.#server.on("connection", (socket: Socket) => {
      this.connections += 1;
      this.#keep(socket);
    });
  }

  static async before(target: string, certificate: Certificate): Promise<SecureProxy> {
    const proxy = new SecureProxy(target, certificate);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  url(host = "127.0.0.1"): string {
    return `https://${host}:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
  }
}
