import type { Asker, Question } from "./collector.js";
import type { Delivery } from "./delivery.js";
import { signalled, type Ends } from "./ends.js";
import { OMITTED, type Ending } from "./endings.js";
import { EffectUncertain, LeaseLost, type EffectName } from "./errors.js";
import type { Ledger, Lingering } from "./ledger.js";
import { BodyTooLarge, LeaseUnknown, ResultTooLarge, StaleLease } from "./refusals.js";
import { abortable } from "./time.js";
import { isStrange, mayPass } from "./transport.js";

/** The longest result that may ride in a commit: those of other messages must not wait while it is sent. */
const RIDING_CHARS_MAX = 65_536;

/** How an effect ended that is this caller's. */
export class Finish {
  constructor(
    readonly effect: EffectName,
    readonly token: string,
    readonly ending: Ending,
    /** When the effect's lease is over, by this process's clock. */
    readonly until: number,
  ) {}
}

/** Says how an effect ended, and waits until that is stored. */
export function tell(ledger: Ledger, finish: Finish, inMessage: boolean): Promise<void> {
  return new Promise((resolve, reject) => void send(ledger, finish, inMessage, () => resolve(), reject));
}

function send(ledger: Ledger, finish: Finish, inMessage: boolean, heard: () => void, failed: (error: unknown) => void): Question {
  const asker: Asker<object> = {
    answered: heard,
    failed: (error) => {
      const tooLarge = error instanceof ResultTooLarge || error instanceof BodyTooLarge;
      if (tooLarge && finish.ending !== OMITTED) send(ledger, new Finish(finish.effect, finish.token, OMITTED, finish.until), inMessage, heard, failed);
      else failed(unheard(error, finish.effect, inMessage));
    },
  };
  return ledger.finish(finish.token, finish.ending, finish.until, asker);
}

/**
 * Only an operator or a reconcile function may resolve what was overtaken: the holder that overtook it may be carrying
 * it out.
 */
function unheard(error: unknown, effect: EffectName, inMessage: boolean): unknown {
  const overtaken = error instanceof StaleLease || error instanceof LeaseUnknown;
  if (!overtaken && !mayPass(error) && !isStrange(error)) return error;
  if (overtaken && inMessage) return asLeaseLost(error);
  const why = overtaken ? "it happened here, and was overtaken before the server heard of it" : "it happened here, and the server did not hear of it in time";
  return new EffectUncertain(effect.scope, effect.key, why, { tenantId: effect.tenantId, cause: error });
}

/** The server's refusal as the error of a delivery. */
export function asLeaseLost(error: unknown): unknown {
  if (!(error instanceof StaleLease || error instanceof LeaseUnknown)) return error;
  return new LeaseLost(`the lease is lost: ${error.detail}. Give this attempt up`, { cause: error });
}

/** An ending on its way to the server. */
export class Unheard implements Lingering {
  goesAt = 0;
  /** It goes out in a moment, unless it is taken back before. */
  #waits = true;
  #question: Question | undefined;
  #heard: Promise<void> | undefined;
  #resolve: (() => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(
    private readonly ledger: Ledger,
    readonly finish: Finish,
    private readonly finishes: Finishes,
    now: number,
  ) {
    ledger.linger(this, now);
  }

  /** Sends it now, if it has not been sent and does not ride. */
  go(): void {
    if (this.#waits) this.send();
  }

  /** Ends when the server has heard it. Made when it is asked for: what rides is rarely waited for. */
  get heard(): Promise<void> {
    if (!this.#heard) {
      this.#heard = new Promise<void>((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
      });
      this.#heard.catch(() => undefined);
    }
    return this.#heard;
  }

  /** Takes it back; true if it had not been sent, and then it will not be. */
  withdraw(): boolean {
    if (this.#question && !this.#question.withdraw()) return false;
    this.#waits = false;
    return true;
  }

  send(): void {
    this.#waits = false;
    void this.heard;
    this.#question = send(this.ledger, this.finish, true, () => this.rode(), (error) => this.#reject?.(error));
  }

  rode(): void {
    this.#resolve?.();
    this.finishes.forget(this);
  }
}

/**
 * The endings of one message's effects that the server has not heard yet. They are on their way; those that were not
 * sent when the handler ends ride in the commit that acks the message.
 */
export class Finishes {
  #unheard: Unheard[] = [];
  #closed = false;

  constructor(
    private readonly ledger: Ledger,
    private readonly delivery: Delivery,
  ) {}

  get count(): number {
    return this.#unheard.length;
  }

  /** From here on endings are told one by one: the handler has ended, or was left behind. */
  close(): void {
    this.#closed = true;
  }

  /** Takes over an ending, if it returns true. One that may be overtaken, or is too large, is better waited for. */
  take(finish: Finish, now: number): boolean {
    if (this.#closed || !this.delivery.isSecure(now)) return false;
    if ((finish.ending.body?.length ?? 0) > RIDING_CHARS_MAX) return false;
    // One that fails stays, and is looked at when the handler has ended.
    this.#unheard.push(new Unheard(this.ledger, finish, this, now));
    return true;
  }

  /** Ends when the server knows of this effect what this message knows. */
  async of({ tenantId, scope, key }: EffectName): Promise<void> {
    const same = this.#unheard.find(({ finish: { effect } }) => effect.key === key && effect.scope === scope && effect.tenantId === tenantId);
    same?.go();
    await same?.heard;
  }

  /** Those that were not sent yet; they are to ride, or to be sent after all. */
  withdraw(): Unheard[] {
    const withdrawn: Unheard[] = [];
    for (const unheard of this.#unheard) if (unheard.withdraw()) withdrawn.push(unheard);
    return withdrawn;
  }

  /** These were stored with the commit. */
  rode(riding: readonly Unheard[]): void {
    for (const unheard of riding) unheard.rode();
  }

  /** These go on their own: there was no commit. */
  send(withdrawn: readonly Unheard[]): void {
    for (const unheard of withdrawn) unheard.send();
  }

  /** Ends when the server has heard of all that is on its way besides those; rejects if it refuses to hear of one. */
  async heard(besides: readonly Unheard[], stopped: Ends | undefined): Promise<void> {
    const waited = this.#unheard.filter((unheard) => !besides.includes(unheard));
    if (waited.length === 0) return;
    for (const unheard of waited) unheard.go();
    const all = Promise.allSettled(waited.map(({ heard }) => heard));
    const ends = await signalled(stopped, (signal) => abortable(all, signal));
    for (const unheard of waited) this.forget(unheard);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  forget(heard: Unheard): void {
    const place = this.#unheard.indexOf(heard);
    if (place >= 0) this.#unheard.splice(place, 1);
  }
}
