import { within } from "./ambient.js";
import { Context } from "./context.js";
import type { Delivery } from "./delivery.js";
import type { Ends } from "./ends.js";
import { LeaseLost } from "./errors.js";
import type { WorkerEventListener } from "./events.js";
import type { BatchItem, Route } from "./handler.js";
import type { Ledger } from "./ledger.js";
import { Dead, Retry } from "./outcomes.js";
import { BadPayload, readPayload } from "./payload.js";
import { settlementOf, type HandlerEnd, type Settlement } from "./settle.js";
import type { Settler } from "./settler.js";
import { isA } from "./texts.js";

/** What running a handler takes. */
export interface Runner {
  readonly ledger: Ledger;
  readonly owner: string;
  readonly settler: Settler;
  readonly emit: WorkerEventListener;
  /** Told of a handler whose place is given away although it has not ended. */
  leaveBehind(handler: Promise<void>): void;
}

/** Is told how far the run of a handler has got. */
export interface Progress {
  /** The handler has ended, or was left behind. */
  ended(): void;
  /** Nothing more is to be said about that message. */
  settled(delivery: Delivery): void;
}

const LEFT_BEHIND = Symbol("left behind");

/** Runs the handler of one message, and hands its settlement on. Ends when the handler's place is free. */
export async function runOne(runner: Runner, route: Route, delivery: Delivery, progress: Progress): Promise<void> {
  const context = new Context(delivery, runner.ledger, runner.owner);
  delivery.start(route.options.timeoutMs);
  const end = await outcomeOf(runner, [delivery], async () => {
    const read = readPayload(delivery.message, route.options.encoding ?? "json", route.options.schema);
    const payload = read instanceof Promise ? await read : read;
    await within(context, () => route.handle!(payload, context));
  });
  progress.ended();
  await conclude(runner, route, delivery, context, end, progress);
}

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
  const rest: Promise<void>[] = [];
  for (const delivery of deliveries) {
    const context = new Context(delivery, runner.ledger, runner.owner);
    delivery.start(route.options.timeoutMs);
    try {
      const payload = await readPayload(delivery.message, route.options.encoding ?? "json", route.options.schema);
      items.push(new Item(payload, context, delivery));
    } catch (error) {
      rest.push(conclude(runner, route, delivery, context, { returned: false, error }, progress));
    }
  }
  const end = await batchOutcome(runner, route, items);
  progress.ended();
  for (const item of items) rest.push(conclude(runner, route, item.delivery, item.context, item.end ?? end, progress));
  await Promise.all(rest);
}

/** The handler gets what has not ended before; with nothing left it is not called. */
async function batchOutcome(runner: Runner, route: Route, items: readonly Item[]): Promise<HandlerEnd> {
  const open = items.filter(({ delivery }) => !delivery.ended);
  if (open.length === 0) return { returned: true };
  const deliveries = open.map(({ delivery }) => delivery);
  return outcomeOf(runner, deliveries, async () => {
    await route.handleBatch!(open);
  });
}

/** How the handler ended; one that does not heed its signal is left behind after a while. */
async function outcomeOf(runner: Runner, deliveries: readonly Delivery[], run: () => Promise<void>): Promise<HandlerEnd> {
  if (deliveries.length === 1 && deliveries[0]!.ended) return { returned: false, error: deliveries[0]!.ended };
  let handler: Promise<void>;
  try {
    const end = await new Promise<unknown>((resolve, reject) => {
      let left = deliveries.length;
      for (const delivery of deliveries) {
        delivery.onLeftBehind = () => {
          left -= 1;
          if (left === 0) resolve(LEFT_BEHIND);
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
async function conclude(runner: Runner, route: Route, delivery: Delivery, context: Context, end: HandlerEnd, progress: Progress): Promise<void> {
  delivery.stop();
  context.close();
  const stopped = runner.settler;
  const waits = context.collected;
  if (waits && end.returned && !delivery.settled && !delivery.ended) {
    try {
      // Repeated until the server has heard it, as settlements are.
      await context.conclude(Number.POSITIVE_INFINITY, stopped);
    } catch (error) {
      end = { returned: false, error };
    }
  }
  // The server must hear how the effects ended before the message can come again, and before it is acked.
  if (context.unheard) end = await heard(context, stopped, end);
  if (delivery.settled) {
    if (!end.returned) emitFailure(runner, delivery, end.error, "after it was committed");
    progress.settled(delivery);
    return;
  }
  if (waits && stopped.endedBy !== undefined) {
    emitLost(runner, delivery, end.returned ? stopped.endedBy : end.error);
    progress.settled(delivery);
    return;
  }
  const settlement = settlementOf(asOutcome(end, route), delivery.ended, delivery.stopped);
  tell(runner, delivery, end, settlement);
  delivery.settled = true;
  if (settlement.kind === "drop") {
    progress.settled(delivery);
    return;
  }
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
