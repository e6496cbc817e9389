import { Refused } from "./errors.js";
import type { Problem } from "./errors.js";

// One class for every code of docs/errors.json; a test holds this file against that one.

/** A value is missing or not allowed. */
export class InvalidArgument extends Refused {}
/** The body is not the JSON that this call takes. */
export class InvalidJson extends Refused {}
/** The message's deadline has passed. */
export class DeadlineExceeded extends Refused {}
/** This call must be confirmed. */
export class ConfirmationRequired extends Refused {}
/** There is no topic of that name. */
export class TopicUnknown extends Refused {}
/** The topic has no group of that name. */
export class GroupUnknown extends Refused {}
/** There is no lease with that token. */
export class LeaseUnknown extends Refused {}
/** There is no message at that place. */
export class MessageUnknown extends Refused {}
/** There is no effect with that scope and key. */
export class EffectUnknown extends Refused {}
/** There is no such output. */
export class OutputUnknown extends Refused {}
/** There is no run of that name. */
export class RunUnknown extends Refused {}
/** No entity has that name. */
export class EntityUnknown extends Refused {}
/** There is no such endpoint. */
export class EndpointUnknown extends Refused {}
/** No commit under that key is remembered. */
export class CommitUnknown extends Refused {}
/** There is no job of that name. */
export class JobUnknown extends Refused {}
/** The server asks for a key, and was shown none that opens anything: set DRIFTQ_KEY, or give `key`. */
export class Unauthenticated extends Refused {}
/** The key does not allow this. */
export class Forbidden extends Refused {}
/** No access key has that id. */
export class AccessKeyUnknown extends Refused {}
/** A web page of another origin may not ask this server. */
export class ForeignOrigin extends Refused {}
/** This server does not go by the name that was asked for. */
export class ForeignHost extends Refused {}
/** There is nothing at this path. */
export class NotFound extends Refused {}
/** This path does not take this method. */
export class MethodNotAllowed extends Refused {}
/** The body did not arrive in time. */
export class RequestTimeout extends Refused {}
/** Somebody else holds the message. */
export class NotOwner extends Refused {}
/** The message is not on loan to this group. */
export class NotInFlight extends Refused {}
/** The lease is no longer valid. */
export class StaleLease extends Refused {}
/** The topic exists with other settings. */
export class SettingsDiffer extends Refused {}
/** The topic belongs to another tenant. */
export class TenantDiffers extends Refused {}
/** An operation with this idempotency key is under way. */
export class KeyInFlight extends Refused {}
/** The effect is being carried out. */
export class EffectRunning extends Refused {}
/** The effect has its final outcome. */
export class EffectFinished extends Refused {}
/** The effect has used up its attempts. */
export class AttemptsExhausted extends Refused {}
/** The output was begun in the other mode. */
export class OutputModeDiffers extends Refused {}
/** Another version is current. */
export class VersionDiffers extends Refused {}
/** The version is the current one. */
export class VersionInUse extends Refused {}
/** The version is sealed: nothing in it moves any more. */
export class VersionSealed extends Refused {}
/** An entity has another version than was expected: `entity` says which, `version` the one that it has. */
export class PreconditionFailed extends Refused {}
/** A limit of this broker is reached. */
export class LimitReached extends Refused {}
/** The body is larger than the server takes. */
export class BodyTooLarge extends Refused {}
/** The result is larger than the server keeps. */
export class ResultTooLarge extends Refused {}
/** The URL is longer than the server takes. */
export class UrlTooLong extends Refused {}
/** The idempotency key was used for another request. */
export class KeyReused extends Refused {}
/** This call does not take that content type. */
export class UnsupportedMediaType extends Refused {}
/** A quota of the key is used up; `reason` names it. */
export class QuotaExceeded extends Refused {}
/** More work is waiting than may wait. */
export class Overloaded extends Refused {}
/** The broker's disk is full. */
export class DiskFull extends Refused {}
/** The router has no good answer. */
export class RouterRefused extends Refused {}
/** The broker cannot answer now. */
export class Unavailable extends Refused {}
/** The server made a mistake. */
export class Internal extends Refused {}

/** The class of a refusal, by the code that the server sends. */
export const refusals = {
  INVALID_ARGUMENT: InvalidArgument,
  INVALID_JSON: InvalidJson,
  DEADLINE_EXCEEDED: DeadlineExceeded,
  CONFIRMATION_REQUIRED: ConfirmationRequired,
  TOPIC_UNKNOWN: TopicUnknown,
  GROUP_UNKNOWN: GroupUnknown,
  LEASE_UNKNOWN: LeaseUnknown,
  MESSAGE_UNKNOWN: MessageUnknown,
  EFFECT_UNKNOWN: EffectUnknown,
  OUTPUT_UNKNOWN: OutputUnknown,
  RUN_UNKNOWN: RunUnknown,
  ENTITY_UNKNOWN: EntityUnknown,
  ENDPOINT_UNKNOWN: EndpointUnknown,
  COMMIT_UNKNOWN: CommitUnknown,
  JOB_UNKNOWN: JobUnknown,
  UNAUTHENTICATED: Unauthenticated,
  FORBIDDEN: Forbidden,
  ACCESS_KEY_UNKNOWN: AccessKeyUnknown,
  FOREIGN_ORIGIN: ForeignOrigin,
  FOREIGN_HOST: ForeignHost,
  NOT_FOUND: NotFound,
  METHOD_NOT_ALLOWED: MethodNotAllowed,
  REQUEST_TIMEOUT: RequestTimeout,
  NOT_OWNER: NotOwner,
  NOT_IN_FLIGHT: NotInFlight,
  STALE_LEASE: StaleLease,
  SETTINGS_DIFFER: SettingsDiffer,
  TENANT_DIFFERS: TenantDiffers,
  KEY_IN_FLIGHT: KeyInFlight,
  EFFECT_RUNNING: EffectRunning,
  EFFECT_FINISHED: EffectFinished,
  ATTEMPTS_EXHAUSTED: AttemptsExhausted,
  OUTPUT_MODE_DIFFERS: OutputModeDiffers,
  VERSION_DIFFERS: VersionDiffers,
  VERSION_IN_USE: VersionInUse,
  VERSION_SEALED: VersionSealed,
  PRECONDITION_FAILED: PreconditionFailed,
  LIMIT_REACHED: LimitReached,
  BODY_TOO_LARGE: BodyTooLarge,
  RESULT_TOO_LARGE: ResultTooLarge,
  URL_TOO_LONG: UrlTooLong,
  KEY_REUSED: KeyReused,
  UNSUPPORTED_MEDIA_TYPE: UnsupportedMediaType,
  QUOTA_EXCEEDED: QuotaExceeded,
  OVERLOADED: Overloaded,
  DISK_FULL: DiskFull,
  ROUTER_REFUSED: RouterRefused,
  UNAVAILABLE: Unavailable,
  INTERNAL: Internal,
} as const;

// Names are set here and not taken from the class, so that a bundler that shortens names does not change them.
for (const [code, type] of Object.entries(refusals)) {
  type.prototype.name = className(code);
}

function className(code: string): string {
  return code.toLowerCase().replace(/(^|_)([a-z])/g, (_all, _start, letter: string) => letter.toUpperCase());
}

/** The error for a problem; a code that this SDK does not know is a plain `Refused`. */
export function refusal(problem: Problem, requestId?: string): Refused {
  const type: typeof Refused = Object.hasOwn(refusals, problem.code) ? refusals[problem.code as keyof typeof refusals] : Refused;
  return new type(problem, requestId);
}

/** Names the topic that does not exist, for a caller that asked for several; any other error stays as it is. */
export function namingTopic(error: unknown, topic: string): unknown {
  if (!(error instanceof TopicUnknown)) return error;
  const { code, status, help, retryable, requestId } = error;
  return refusal({ code, status, detail: `there is no topic ${topic}`, help, retryable }, requestId);
}
