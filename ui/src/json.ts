// JSON without loss. The language's own reader rounds whole numbers beyond 2^53 and drops what a number looked like.

/** A number as it was written, where a `number` would not be the same. */
export class Exact {
  constructor(readonly text: string) {}
  toString(): string {
    return this.text;
  }
  toJSON(): never {
    throw new Error("an exact number has no JSON form here");
  }
}

export type Json = null | boolean | number | Exact | string | Json[] | { [name: string]: Json };

const DEPTH_MAX = 200;

/** Reads a document. With `exact`, every number is kept as it was written. */
export function parse(text: string, exact = false): Json {
  const reader = new Reader(text, exact);
  const value = reader.value(0);
  reader.end();
  return value;
}

class Reader {
  private at = 0;
  constructor(
    private readonly text: string,
    private readonly exact: boolean,
  ) {}

  value(depth: number): Json {
    if (depth > DEPTH_MAX) throw this.wrong();
    this.space();
    const first = this.text[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') return this.string();
    for (const [word, value] of [["true", true], ["false", false], ["null", null]] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  end(): void {
    this.space();
    if (this.at !== this.text.length) throw this.wrong();
  }

  private object(depth: number): Json {
    // Without a prototype: a field may have any name.
    const object: { [name: string]: Json } = Object.create(null);
    this.list("}", () => {
      this.space();
      const name = this.string();
      this.space();
      this.expect(":");
      object[name] = this.value(depth + 1);
    });
    return object;
  }

  private array(depth: number): Json {
    const array: Json[] = [];
    this.list("]", () => array.push(this.value(depth + 1)));
    return array;
  }

  private list(close: string, item: () => void): void {
    this.at += 1;
    this.space();
    if (this.text[this.at] === close) {
      this.at += 1;
      return;
    }
    for (;;) {
      item();
      this.space();
      if (this.text[this.at] === close) {
        this.at += 1;
        return;
      }
      this.expect(",");
    }
  }

  private string(): string {
    const start = this.at;
    this.expect('"');
    for (;;) {
      const here = this.text[this.at];
      if (here === undefined) throw this.wrong();
      this.at += here === "\\" ? 2 : 1;
      if (here === '"') return JSON.parse(this.text.slice(start, this.at)) as string;
    }
  }

  private number(): number | Exact {
    const pattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
    pattern.lastIndex = this.at;
    const written = pattern.exec(this.text)?.[0];
    if (!written) throw this.wrong();
    this.at += written.length;
    const value = Number(written);
    const isSame = !this.exact && String(value) === written && (Number.isSafeInteger(value) || /[.e]/i.test(written));
    return isSame ? value : new Exact(written);
  }

  private space(): void {
    while (this.at < this.text.length && " \t\n\r".includes(this.text[this.at]!)) this.at += 1;
  }

  private expect(character: string): void {
    if (this.text[this.at] !== character) throw this.wrong();
    this.at += 1;
  }

  private wrong(): SyntaxError {
    return new SyntaxError(`no JSON at character ${this.at}`);
  }
}
