import { known, names, whole } from "./limits.js";
import { environment } from "./platform.js";

/** How a role is asked for; nothing of it is needed. */
export interface AwsOptions {
  /** What the identity provider in AWS calls its client; `sts.amazonaws.com` if not given. */
  audience?: string;
  /** How CloudTrail calls the session; topic, partition, offset and attempt if not given. */
  sessionName?: string;
  /** How long the credentials are good for, 15 minutes at least; an hour if not given. */
  durationMs?: number;
  /** Else `AWS_REGION` or `AWS_DEFAULT_REGION`. */
  region?: string;
  /** The URL of STS; else `AWS_ENDPOINT_URL_STS`, else that of the region. */
  endpoint?: string;
}
const AWS_OPTIONS = names<AwsOptions>({ audience: true, sessionName: true, durationMs: true, region: true, endpoint: true });

const AUDIENCE = "sts.amazonaws.com";
const VERSION = "2011-06-15";
/** What STS takes. */
const DURATION_MS_MIN = 900_000;
const DURATION_MS_MAX = 43_200_000;
const SESSION_NAME_MAX = 64;
const SESSION_NAME = /^[A-Za-z0-9_+=,.@-]{2,64}$/;
const NOT_IN_SESSION_NAME = /[^A-Za-z0-9_+=,.@-]/gu;
const REGION = /^[a-z0-9-]{1,32}$/;
/** Node's way to ask an object for its text. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/**
 * Credentials of AWS for a role. They end at `expiration` and not with the lease. As JSON, and where Node prints them, they
 * show neither the secret nor the token.
 */
export class AwsCredentials {
  constructor(
    readonly accessKeyId: string,
    readonly secretAccessKey: string,
    readonly sessionToken: string,
    readonly expiration: Date,
  ) {}

  toJSON(): { accessKeyId: string; expiration: Date } {
    return { accessKeyId: this.accessKeyId, expiration: this.expiration };
  }

  toString(): string {
    return `AwsCredentials(${this.accessKeyId}, until ${this.expiration.toISOString()})`;
  }

  [INSPECT](): string {
    return this.toString();
  }
}

/** What is asked for, checked before anything is sent. */
export interface Role {
  readonly audience: string;
  readonly url: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Where a message lies, and which attempt it is. */
export interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly attempt: number;
}

export function roleOf(roleArn: string, place: Place, options: AwsOptions): Role {
  known(options, AWS_OPTIONS, "a role of AWS");
  const name = options.sessionName || sessionName(place);
  if (!SESSION_NAME.test(name)) {
    throw new RangeError(`sessionName is ${JSON.stringify(name)}: it must be 2 to 64 of A-Z, a-z, 0-9 and _+=,.@-`);
  }
  const fields: Record<string, string> = { Action: "AssumeRoleWithWebIdentity", Version: VERSION, RoleArn: roleArn, RoleSessionName: name };
  if (options.durationMs !== undefined) {
    const durationMs = whole(options.durationMs, "durationMs", DURATION_MS_MIN, DURATION_MS_MAX);
    fields["DurationSeconds"] = String(Math.round(durationMs / 1000));
  }
  return { audience: options.audience ?? AUDIENCE, url: endpointOf(options.region, options.endpoint), fields };
}

/** `driftq-orders-0-17-1`: what a person needs to find the attempt. A long topic is cut. */
export function sessionName({ topic, partition, offset, attempt }: Place): string {
  const tail = `-${partition}-${offset}-${attempt}`;
  const head = `driftq-${topic}`.replace(NOT_IN_SESSION_NAME, "-");
  return head.slice(0, SESSION_NAME_MAX - tail.length) + tail;
}

export function endpointOf(region: string | undefined, endpoint: string | undefined): string {
  const given = endpoint || environment("AWS_ENDPOINT_URL_STS");
  if (given) return checkedUrl(given);
  const named = region || environment("AWS_REGION") || environment("AWS_DEFAULT_REGION");
  if (!named) return "https://sts.amazonaws.com/";
  if (!REGION.test(named)) throw new RangeError(`${JSON.stringify(named)} is not a region of AWS: it must look like eu-central-1`);
  return `https://sts.${named}.amazonaws.com${named.startsWith("cn-") ? ".cn" : ""}/`;
}

function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const usable = url !== undefined && (url.protocol === "http:" || url.protocol === "https:");
  // Not repeated in the error: what is in front of an @, or in a query, may be a secret.
  if (!usable || url.username || url.password || url.search || url.hash) {
    throw new RangeError("the endpoint of STS cannot be used: it must look like https://sts.eu-central-1.amazonaws.com");
  }
  return url.href;
}
