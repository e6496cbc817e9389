import { within } from "./ambient.js";
import type { Asker } from "./collector.js";
import { Context } from "./context.js";
import type { Delivery, Patience } from "./delivery.js";
import type { Ends } from "./ends.js";
import { LeaseLost } from "./errors.js";
import type { WorkerEventListener } from "./events.js";
import type { BatchItem, Route } from "./handler.js";
import type { Ledger } from "./ledger.js";
import { Dead, Retry } from "./outcomes.js";
import { BadPayload, readPayload } from "./payload.js";
import { settlementOf, type HandlerEnd, type Settlement } from "./settle.js";
import type { Settler } from "./settler.js";
import { handling } from "./spans.js";
import { isA, isThenable } from "./texts.js";

/** What running a handler takes. */
export interface Runner {
  readonly ledger: Ledger;
  readonly owner: string;
  readonly settler: Settler;
  readonly emit: WorkerEventListener;
  /** Told of a handler whose place is given away although it has not ended. */
  leaveBehind(handler: Promise<unknown>): void;
}

/** Is told how far the run of a handler has got. */
export interface Progress {
  /** The handler has ended, or was left behind. */
  ended(): void;
  /** Nothing more is to be said about that message. */
  settled(delivery: Delivery): void;
  /** What is left of that message is the settler's. */
  concluded(): void;
  /** This package itself has failed. */
  failed(error: unknown): void;
}

const LEFT_BEHIND = Symbol("left behind");

/** Runs the handler of one message, and hands its settlement on. */
export function runOne(runner: Runner, route: Route, delivery: Delivery, progress: Progress): void {
  delivery.start(route.options.timeoutMs);
  new One(runner, route, delivery, progress).go();
}

/**
 * One message and its handler. An object instead of async functions: a message that waits for something keeps all of this
 * alive, and a promise takes several times as much.
 */
class One implements Patience {
  readonly #context: Context;
  #handler: Promise<unknown> | undefined;
  #ended = false;

  constructor(
    private readonly runner: Runner,
    private readonly route: Route,
    private readonly delivery: Delivery,
    private readonly progress: Progress,
  ) {
    this.#context = new Context(delivery, runner.ledger, runner.owner);
  }

  go(): void {
    const { delivery } = this;
    if (delivery.ended) return this.#end({ returned: false, error: delivery.ended });
    let returned: unknown;
    try {
      const { encoding = "json", schema } = this.route.options;
      const payload = readPayload(delivery.message, encoding, schema);
      returned = payload instanceof Promise ? payload.then((read) => this.#handle(read)) : this.#handle(payload);
    } catch (error) {
      return this.#end({ returned: false, error });
    }
    if (!isThenable(returned)) return this.#end(RETURNED);
    this.#handler = Promise.resolve(returned);
    delivery.patience = this;
    void this.#handler.then(
      () => this.#end(RETURNED),
      (error: unknown) => this.#end({ returned: false, error }),
    );
  }

  #handle(payload: unknown): unknown {
    return handling([this.delivery], [this.#context], () => within(this.#context, () => this.route.handle!(payload, this.#context)));
  }

  /** The handler is left behind. */
  over(): void {
    const { runner, delivery } = this;
    if (this.#ended || !this.#handler) return;
    runner.leaveBehind(this.#handler);
    const { message, attempt, ended } = delivery;
    runner.emit({ kind: "handler_left_behind", message, attempt, error: ended });
    this.#end({ returned: false, error: ended });
  }

  /** How the handler ended; after it was left behind, that is of no interest any more. */
  #end(end: HandlerEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    const { runner, route, delivery, progress } = this;
    try {
      progress.ended();
      conclude(runner, route, delivery, this.#context, end, progress);
    } catch (error) {
      progress.failed(error);
    }
  }
}

const RETURNED: HandlerEnd = { returned: true };

/** One message of a batch, and what was said about it alone. */
class Item implements BatchItem<unknown> {
  end: HandlerEnd | undefined;

  constructor(
    readonly payload: unknown,
    readonly context: Context,
    readonly delivery: Delivery,
  ) {}

  /** A bound function, so that it can be taken out of the item. */
  readonly fail = (error: unknown): void => {
    this.end = { returned: false, error };
  };
}

/** Runs the handler of a batch, and hands the settlements on. */
export async function runBatch(runner: Runner, route: Route, deliveries: Delivery[], progress: Progress): Promise<void> {
  const items: Item[] = [];
  for (const delivery of deliveries) {
    const context = new Context(delivery, runner.ledger, runner.owner);
    delivery.start(route.options.timeoutMs);
    try {
      const payload = await readPayload(delivery.message, route.options.encoding ?? "json", route.options.schema);
      items.push(new Item(payload, context, delivery));
    } catch (error) {
      conclude(runner, route, delivery, context, { returned: false, error }, progress);
    }
  }
  const end = await batchOutcome(runner, route, items);
  progress.ended();
  for (const item of items) conclude(runner, route, item.delivery, item.context, item.end ?? end, progress);
}

/** The handler gets what has not ended before; with nothing left it is not called. */
async function batchOutcome(runner: Runner, route: Route, items: readonly Item[]): Promise<HandlerEnd> {
  const open = items.filter(({ delivery }) => !delivery.ended);
  if (open.length === 0) return { returned: true };
  const deliveries = open.map(({ delivery }) => delivery);
  return outcomeOf(runner, deliveries, async () => {
    await handling(
      deliveries,
      open.map(({ context }) => context),
      () => route.handleBatch!(open),
    );
  });
}

/** How the handler ended; one that does not heed its signal is left behind after a while. */
async function outcomeOf(runner: Runner, deliveries: readonly Delivery[], run: () => Promise<void>): Promise<HandlerEnd> {
  let handler: Promise<void>;
  try {
    const end = await new Promise<unknown>((resolve, reject) => {
      let left = deliveries.length;
      for (const delivery of deliveries) {
        delivery.patience = {
          over: () => {
            left -= 1;
            if (left === 0) resolve(LEFT_BEHIND);
          },
        };
      }
      handler = run();
      handler.then(resolve, reject);
    });
    if (end !== LEFT_BEHIND) return { returned: true };
    runner.leaveBehind(handler!);
    for (const { message, attempt, ended } of deliveries) {
      runner.emit({ kind: "handler_left_behind", message, attempt, error: ended });
    }
    return { returned: false, error: deliveries[0]!.ended };
  } catch (error) {
    return { returned: false, error };
  }
}

/** Settles a delivery whose handler has ended: with what it collected, by one commit. */
function conclude(runner: Runner, route: Route, delivery: Delivery, context: Context, end: HandlerEnd, progress: Progress): void {
  delivery.stop();
  context.close();
  if (!context.collected) settle(runner, route, delivery, end, progress, false);
  else new Conclusion(runner, route, delivery, context, end, progress).go();
}

/** A message that has more to it than an ack, until it is committed or has become the settler's. */
class Conclusion implements Asker<unknown> {
  constructor(
    private readonly runner: Runner,
    private readonly route: Route,
    private readonly delivery: Delivery,
    private readonly context: Context,
    private end: HandlerEnd,
    private readonly progress: Progress,
  ) {}

  go(): void {
    const { delivery } = this;
    // Repeated until the server has heard it, as settlements are.
    if (this.end.returned && !delivery.settled && !delivery.ended) this.context.conclude(Number.POSITIVE_INFINITY, this.runner.settler, true, this);
    else this.#settle();
  }

  answered(): void {
    this.#settle();
  }

  failed(error: unknown): void {
    this.end = { returned: false, error };
    this.#settle();
  }

  /** The server must hear how the effects ended before the message can come again, and before it is acked. */
  #settle(): void {
    try {
      if (!this.context.unheard) settle(this.runner, this.route, this.delivery, this.end, this.progress, true);
      else this.#hear().catch(this.progress.failed);
    } catch (error) {
      this.progress.failed(error);
    }
  }

  async #hear(): Promise<void> {
    const end = await heard(this.context, this.runner.settler, this.end);
    settle(this.runner, this.route, this.delivery, end, this.progress, true);
  }
}

/** `waited`: for a commit, or for effects to be heard of, which a stop may have cut short. */
function settle(runner: Runner, route: Route, delivery: Delivery, end: HandlerEnd, progress: Progress, waited: boolean): void {
  const stopped: Ends = runner.settler;
  if (delivery.settled) {
    if (!end.returned) emitFailure(runner, delivery, end.error, "after it was committed");
    progress.settled(delivery);
  } else if (waited && stopped.endedBy !== undefined) {
    emitLost(runner, delivery, end.returned ? stopped.endedBy : end.error);
    progress.settled(delivery);
  } else {
    const settlement = settlementOf(asOutcome(end, route), delivery.ended, delivery.stopped);
    tell(runner, delivery, end, settlement);
    delivery.settled = true;
    if (settlement.kind === "drop") progress.settled(delivery);
    else push(runner, delivery, end, settlement, progress);
  }
  progress.concluded();
}

function push(runner: Runner, delivery: Delivery, end: HandlerEnd, settlement: Exclude<Settlement, { kind: "drop" }>, progress: Progress): void {
  runner.settler.push(delivery, settlement, (fate) => {
    const { message, attempt, ended } = delivery;
    if (!fate.heard && !(ended instanceof LeaseLost)) emitLost(runner, delivery, fate.error);
    else if (fate.heard && fate.refused) runner.emit({ kind: "settlement_refused", message, attempt, error: fate.refused });
    // A dead letter that the handler asked for was reported before.
    if (fate.heard && fate.dead && settlement.kind === "nack" && !settlement.dead) {
      runner.emit({ kind: "dead_lettered", message, attempt, error: end.returned ? ended : end.error });
    }
    progress.settled(delivery);
  });
}

async function heard(context: Context, stopped: Ends, end: HandlerEnd): Promise<HandlerEnd> {
  try {
    await context.heard(stopped);
    return end;
  } catch (error) {
    return end.returned ? { returned: false, error } : end;
  }
}

/** A payload that does not parse is an outcome that the route decides on. */
function asOutcome(end: HandlerEnd, route: Route): HandlerEnd {
  if (end.returned || !isA(end.error, BadPayload)) return end;
  const reason = end.error.message;
  return { returned: false, error: route.options.badPayload === "retry" ? new Retry(reason) : new Dead(reason) };
}

function tell(runner: Runner, delivery: Delivery, end: HandlerEnd, settlement: Settlement): void {
  const { message, attempt, ended } = delivery;
  if (ended) {
    runner.emit({ kind: "delivery_ended", message, attempt, error: ended });
  } else if (!end.returned && settlement.kind === "nack") {
    emitFailure(runner, delivery, end.error, settlement.dead ? "it becomes a dead letter" : "it comes again if attempts are left");
  }
}

function emitFailure(runner: Runner, { message, attempt }: Delivery, error: unknown, then: string): void {
  runner.emit({ kind: "handler_failed", message, attempt, error, then });
}

function emitLost(runner: Runner, { message, attempt }: Delivery, error: unknown): void {
  runner.emit({ kind: "settlement_lost", message, attempt, error });
}
