import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, test } from "vitest";
import { Collector, type Question } from "../src/collector.js";
import { endsOf } from "../src/ends.js";
import { ConnectionLost, Refused, type Answer, type Send } from "../src/index.js";
import { monotonicMs } from "../src/time.js";
import { Transport } from "../src/transport.js";

interface Said {
  n: number;
}

/** What a server is asked, and what it says to each; `undefined` breaks the connection. */
class Desk {
  readonly asked: { path: string; numbers: number[]; alone: boolean }[] = [];
  cuts = 0;
  say: (numbers: number[], call: number) => object | undefined | Promise<object | undefined> = (numbers) => this.results(numbers);

  readonly send: Send = (_method, url, text) => {
    const { pathname } = new URL(url);
    if (pathname === "/v2/healthz") return { answer: Promise.resolve(answerOf(200, { status: "ok" })), cut: () => undefined };
    let cut!: () => void;
    const broken = new Promise<Answer>((_resolve, reject) => (cut = () => ((this.cuts += 1), reject(new Error("cut")))));
    return { answer: Promise.race([this.#answer(pathname, JSON.parse(text!)), broken]), cut };
  };

  readonly collector = (unheeded?: (said: Said) => void) => {
    const transport = new Transport({ url: "http://desk", connectTimeoutMs: 1_000, answerTimeoutMs: 1_000, patienceMs: 0, key: undefined, send: this.send, onAway: () => undefined });
    return new Collector<Said>(transport, { path: "/many", member: "questions", ...(unheeded && { unheeded }) });
  };

  results(numbers: number[]): object {
    return { results: numbers.map((n) => ({ n: n * 10 })) };
  }

  get numbers(): number[][] {
    return this.asked.map(({ numbers }) => numbers);
  }

  async #answer(path: string, body: { n?: number; questions?: Said[] }): Promise<Answer> {
    const alone = body.questions === undefined;
    const numbers = body.questions?.map(({ n }) => n) ?? [body.n!];
    this.asked.push({ path, numbers, alone });
    const said = await this.say(numbers, this.asked.length);
    if (!said) throw new Error("the connection broke");
    if ("status" in said) return answerOf(said.status as number, said);
    return answerOf(200, alone ? (said as { results: object[] }).results[0]! : said);
  }
}

function answerOf(status: number, document: object): Answer {
  return { status, text: JSON.stringify(document), header: () => undefined };
}

const problem = (code: string, status: number, retryable = false) => ({ code, status, retryable, detail: "said by the test", retry_after_ms: 1 });
const later = () => monotonicMs() + 10_000;
/** Long enough for a call that is to be made at once. */
const turns = async () => {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve));
};
const until = async (done: () => boolean) => {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
};
const errorOf = (promise: Promise<unknown>) => promise.then(() => undefined, (error: unknown) => error);

/** A question that may be withdrawn, and its answer. */
function asked(collector: Collector<Said>, n: number): { question: Question; answer: Promise<Said> } {
  let question!: Question;
  const answer = new Promise<Said>((answered, failed) => {
    question = collector.push(JSON.stringify({ n }), { answered, failed }, { until: later() });
  });
  return { question, answer };
}

describe("what is asked for at once", () => {
  test("goes in one call, and what comes meanwhile in the next one", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    let more: Promise<Said>[] = [];
    desk.say = (numbers, call) => {
      if (call === 1) more = [3, 4].map((n) => collector.ask(JSON.stringify({ n }), { until: later() }));
      return desk.results(numbers);
    };
    const first = [1, 2].map((n) => collector.ask(JSON.stringify({ n }), { until: later() }));
    expect(await Promise.all(first)).toEqual([{ n: 10 }, { n: 20 }]);
    expect(await Promise.all(more)).toEqual([{ n: 30 }, { n: 40 }]);
    expect(desk.numbers).toEqual([[1, 2], [3, 4]]);
  });

  test("is not listed if it is one, and may go elsewhere then", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    expect(await collector.ask(JSON.stringify({ n: 1 }), { until: later() })).toEqual({ n: 10 });
    const alone = { path: "/one", text: JSON.stringify({ n: 2 }) };
    expect(await collector.ask(JSON.stringify({ n: 7 }), { until: later(), alone })).toEqual({ n: 20 });
    expect(desk.asked).toEqual([
      { path: "/many", numbers: [1], alone: true },
      { path: "/one", numbers: [2], alone: true },
    ]);
  });

  test("is at most 1,000 for one call", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    const numbers = Array.from({ length: 1_201 }, (_, n) => n);
    await Promise.all(numbers.map((n) => collector.ask(JSON.stringify({ n }), { until: later() })));
    expect(desk.numbers.map((list) => list.length)).toEqual([100, 100, 1_000, 1]);
    expect(desk.numbers.flat()).toEqual(numbers);
  });

  test("goes ahead if it is much, and what is left at the end of the turn beside it", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = async (numbers) => (await until(() => desk.asked.length === 2), desk.results(numbers));
    await Promise.all(Array.from({ length: 101 }, (_, n) => collector.ask(JSON.stringify({ n }), { until: later() })));
    expect(desk.numbers.map((list) => list.length)).toEqual([100, 1]);
  });
});

describe("what comes while a call is under way", () => {
  test("goes out beside it if it is much, and waits for it if not", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    let release!: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    const ask = (n: number) => collector.ask(JSON.stringify({ n }), { until: later() });
    let meanwhile: Promise<Said> | undefined;
    desk.say = async (numbers, call) => {
      if (call === 1) await held;
      if (call === 2) meanwhile = ask(101);
      return desk.results(numbers);
    };
    const first = ask(0);
    await until(() => desk.asked.length === 1);
    const few = Array.from({ length: 99 }, (_, n) => ask(n + 1));
    await turns();
    expect(desk.asked.length).toBe(1);
    await Promise.all([...few, ask(100)]);
    expect(desk.numbers[1]).toHaveLength(100);
    // Neither what came with the second call nor what comes after it is worth a third one.
    const last = ask(102);
    await turns();
    expect(desk.asked.length).toBe(2);
    release();
    expect(await Promise.all([first, meanwhile, last])).toEqual([{ n: 0 }, { n: 1010 }, { n: 1020 }]);
    expect(desk.numbers[2]).toEqual([101, 102]);
  });

  test("is two calls at the most, however much it is", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    let release!: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    desk.say = async (numbers) => (await held, desk.results(numbers));
    const all = Array.from({ length: 500 }, (_, n) => collector.ask(JSON.stringify({ n }), { until: later() }));
    await turns();
    expect(desk.numbers.map((list) => list.length)).toEqual([100, 100]);
    release();
    await Promise.all(all);
    expect(desk.numbers.map((list) => list.length)).toEqual([100, 100, 300]);
  });

  test("waits, with the rest of the turn, for a server that is found to be away", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers, call) => (call === 2 ? undefined : desk.results(numbers));
    const ask = (n: number) => collector.ask(JSON.stringify({ n }), { until: later() });
    await ask(0);
    await turns();
    const all = Array.from({ length: 150 }, (_, n) => ask(n + 1));
    await turns();
    expect(desk.asked.length).toBe(2);
    expect(await Promise.all(all)).toHaveLength(150);
    expect(desk.numbers.map((list) => list.length)).toEqual([1, 100, 150]);
  });

  test("waits, however much it is, for a server that is away", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers, call) => (call === 1 ? undefined : desk.results(numbers));
    const ask = (n: number) => collector.ask(JSON.stringify({ n }), { until: later() });
    const first = ask(0);
    await until(() => desk.asked.length === 1);
    await turns();
    const all = Array.from({ length: 250 }, (_, n) => ask(n + 1));
    expect(await Promise.all([first, ...all])).toHaveLength(251);
    expect(desk.numbers.map((list) => list.length)).toEqual([1, 251]);
  });
});

test("what came of it is not told within the async storage of the one that asked first", async () => {
  const collector = new Desk().collector();
  const storage = new AsyncLocalStorage<string>();
  const told = new Promise<unknown>((resolve) => {
    storage.run("first", () => void collector.push('{"n":1}', { answered: () => undefined, failed: resolve }, { until: later() }));
    collector.push('{"n":2}', { answered: () => resolve(storage.getStore() ?? "nothing"), failed: resolve }, { until: later() });
  });
  expect(await told).toBe("nothing");
});

describe("a refusal", () => {
  test("of one is its own; one that may pass is asked for again", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers, call) => ({
      results: numbers.map((n) => {
        if (n === 2) return { problem: problem("STALE_LEASE", 409) };
        return n === 3 && call === 1 ? { problem: problem("OVERLOADED", 429, true) } : { n: n * 10 };
      }),
    });
    const [one, two, three] = [1, 2, 3].map((n) => collector.ask(JSON.stringify({ n }), { until: later() }));
    expect(await errorOf(two!)).toMatchObject({ code: "STALE_LEASE" });
    expect([await one, await three]).toEqual([{ n: 10 }, { n: 30 }]);
    expect(desk.numbers).toEqual([[1, 2, 3], [3]]);
  });

  test("of all is that of the one at fault", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers) => (numbers.includes(3) ? problem("INVALID_ARGUMENT", 400) : desk.results(numbers));
    const answers = [1, 2, 3, 4].map((n) => collector.ask(JSON.stringify({ n }), { until: later() }));
    expect(await errorOf(answers[2]!)).toBeInstanceOf(Refused);
    expect(await Promise.all([0, 1, 3].map((place) => answers[place]))).toEqual([{ n: 10 }, { n: 20 }, { n: 40 }]);
  });

  test("of what the server does not mention is never taken for an answer", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers) => ({ results: numbers.slice(1).map((n) => ({ n })) });
    const answers = [1, 2].map((n) => collector.ask(JSON.stringify({ n }), { until: monotonicMs() }));
    const last = errorOf(answers[1]!);
    expect(await answers[0]).toEqual({ n: 2 });
    expect(await last).toMatchObject({ code: "INTERNAL" });
  });
});

describe("a server that is away", () => {
  test("is asked again with the same words, for as long as each has time", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    desk.say = (numbers, call) => (call < 3 ? undefined : desk.results(numbers));
    const impatient = errorOf(collector.ask(JSON.stringify({ n: 1 }), { until: monotonicMs() }));
    const patient = collector.ask(JSON.stringify({ n: 2 }), { until: later() });
    expect(await impatient).toBeInstanceOf(ConnectionLost);
    expect(await patient).toEqual({ n: 20 });
    expect(desk.numbers).toEqual([[1, 2], [2], [2]]);
  });
});

describe("a caller that goes away", () => {
  test("before it is asked for is not asked for", async () => {
    const desk = new Desk();
    const collector = desk.collector();
    const caller = new AbortController();
    const gone = errorOf(collector.ask(JSON.stringify({ n: 1 }), { until: later(), ends: endsOf(caller.signal) }));
    const withdrawn = asked(collector, 2);
    const stays = asked(collector, 3);
    const reason = new Error("enough");
    caller.abort(reason);
    expect(withdrawn.question.withdraw()).toBe(true);
    expect(await gone).toBe(reason);
    expect(await stays.answer).toEqual({ n: 30 });
    expect(stays.question.withdraw()).toBe(false);
    expect(desk.numbers).toEqual([[3]]);
  });

  test("meanwhile does not hear the answer, which is not lost; the last one ends the call", async () => {
    const desk = new Desk();
    const unheeded: Said[] = [];
    const collector = desk.collector((said) => unheeded.push(said));
    const callers = [new AbortController(), new AbortController()];
    desk.say = (numbers) => {
      if (numbers.includes(1)) callers[0]!.abort(new Error("enough"));
      if (!numbers.includes(3)) return desk.results(numbers);
      queueMicrotask(() => callers[1]!.abort(new Error("enough")));
      return new Promise(() => undefined);
    };
    const gone = errorOf(collector.ask(JSON.stringify({ n: 1 }), { until: later(), ends: endsOf(callers[0]!.signal) }));
    const stays = collector.ask(JSON.stringify({ n: 2 }), { until: later() });
    expect(await stays).toEqual({ n: 20 });
    expect(await gone).toMatchObject({ message: "enough" });
    expect(unheeded).toEqual([{ n: 10 }]);
    expect(await errorOf(collector.ask(JSON.stringify({ n: 3 }), { until: later(), ends: endsOf(callers[1]!.signal) }))).toMatchObject({ message: "enough" });
    expect(desk.cuts).toBe(1);
    expect(await collector.ask(JSON.stringify({ n: 4 }), { until: later() })).toEqual({ n: 40 });
  });
});
