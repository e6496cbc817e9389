import { known, names } from "./limits.js";
import type { Transport } from "./transport.js";

export interface CredentialOptions {
  /** How long it is good for; as long as the lease, and at most an hour, if not given. */
  ttlMs?: number;
}
const CREDENTIAL_OPTIONS = names<CredentialOptions>({ ttlMs: true });

/** What the server says about a credential. */
export interface Introspected {
  /** Whether its delivery is the newest of its message, its lease live, and its own time not over. */
  readonly active: boolean;
  readonly sub?: string;
  readonly aud?: string;
  readonly exp?: number;
  readonly topic?: string;
  readonly group?: string;
  readonly message?: string;
  readonly attempt?: number;
  /** Rises, as a text, with every delivery of the message. */
  readonly fence?: string;
}

/** A credential of the delivery that `token` is the lease of. */
export async function mintCredential(
  transport: Transport,
  token: string,
  audience: string,
  options: CredentialOptions,
): Promise<string> {
  known(options, CREDENTIAL_OPTIONS, "a credential");
  const body = { token, audience, ...(options.ttlMs === undefined ? {} : { ttl_ms: options.ttlMs }) };
  const made = await transport.call<{ credential: string }>("POST", "/v2/leases/credential", { body });
  return made.credential;
}
