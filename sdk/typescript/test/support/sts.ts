import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload } from "jose";

const NAME_SPACE = "https://sts.amazonaws.com/doc/2011-06-15/";

/** What STS answers: a status, and a text. */
export type Said = readonly [number, string];

/**
 * A local stand-in for AWS's STS. It knows nothing of DriftQ but the issuer, whose name resolves to `place`: it reads where the
 * keys are as OpenID Connect says, checks the token with jose, and answers as AWS does.
 */
export class Sts {
  /** The forms that came, and the claims of those that were good. */
  readonly asked: Record<string, string>[] = [];
  readonly claims: JWTPayload[] = [];
  /** If it is set, it is said to everybody. */
  answer: Said | undefined;
  readonly #server: Server;

  private constructor(
    private readonly issuer: string,
    private readonly place: string,
    private readonly audience: string,
    private readonly role: string,
  ) {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const form = Object.fromEntries(new URLSearchParams(Buffer.concat(parts).toString()));
      this.asked.push(form);
      const [status, text] = this.answer ?? (await this.#assume(form));
      response.writeHead(status, { "content-type": "text/xml" }).end(text);
    });
  }

  static async start(issuer: string, place: string, audience: string, role: string): Promise<Sts> {
    const sts = new Sts(issuer, place, audience, role);
    await new Promise<void>((resolve) => sts.#server.listen(0, "127.0.0.1", resolve));
    return sts;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #assume(form: Record<string, string>): Promise<Said> {
    if (form["Action"] !== "AssumeRoleWithWebIdentity" || form["Version"] !== "2011-06-15") return refusal(400, "InvalidAction", "no such action");
    if (form["RoleArn"] !== this.role) return refusal(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity");
    const provider = (await (await fetch(`${this.place}/.well-known/openid-configuration`)).json()) as Record<string, string>;
    if (provider["issuer"] !== this.issuer) return refusal(400, "InvalidIdentityToken", "the provider calls itself by another name");
    const keys = createRemoteJWKSet(new URL(this.place + provider["jwks_uri"]!.slice(this.issuer.length)));
    try {
      const { payload } = await jwtVerify(form["WebIdentityToken"]!, keys, { issuer: this.issuer, audience: this.audience });
      this.claims.push(payload);
    } catch (error) {
      if (error instanceof errors.JWTExpired) return refusal(400, "ExpiredTokenException", error.message);
      return refusal(400, "InvalidIdentityToken", error instanceof errors.JWTClaimValidationFailed ? `Incorrect token ${error.claim}` : String(error));
    }
    const ends = new Date(Date.now() + Number(form["DurationSeconds"] ?? 3_600) * 1_000).toISOString();
    const credentials =
      `<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret/example</SecretAccessKey>` +
      `<SessionToken>session+example==</SessionToken><Expiration>${ends}</Expiration>`;
    const result = `<AssumeRoleWithWebIdentityResult><Credentials>${credentials}</Credentials></AssumeRoleWithWebIdentityResult>`;
    return [200, `<AssumeRoleWithWebIdentityResponse xmlns="${NAME_SPACE}">${result}</AssumeRoleWithWebIdentityResponse>`];
  }
}

function refusal(status: number, code: string, message: string): Said {
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error>`;
  return [status, `<ErrorResponse xmlns="${NAME_SPACE}">${error}<RequestId>r-1</RequestId></ErrorResponse>`];
}
