/** What is escaped in a text. */
const ESCAPED = /["\\\u0000-\u001f]/;
/** Documents nested deeper than this are refused: no real arguments are. */
const DEPTH_MAX = 128;

/**
 * The canonical form of a JSON document: the same text for the same document, in every SDK. Values are read as
 * JSON.stringify reads them: members that are undefined are left out, and toJSON is called.
 */
export function canonical(document: unknown): string {
  const text = write(document, 0);
  if (text === undefined) throw new TypeError(`${typeof document} is no JSON, so it has no canonical form`);
  return text;
}

function write(value: unknown, depth: number): string | undefined {
  if (depth > DEPTH_MAX) throw new TypeError(`a document nested deeper than ${DEPTH_MAX} (or in itself) has no canonical form`);
  switch (typeof value) {
    case "string":
      return writeString(value);
    case "number":
      return writeNumber(value);
    case "bigint":
      return value.toString();
    case "boolean":
      return value ? "true" : "false";
    case "object":
      return value === null ? "null" : writeObject(value, depth);
    default:
      return undefined;
  }
}

function writeNumber(value: number): string {
  if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON number, so it has no canonical form`);
  return String(value === 0 ? 0 : value);
}

function writeString(value: string): string {
  if (!value.isWellFormed()) throw new TypeError("a string with half a surrogate pair has no canonical form");
  // Most have nothing to escape, which is found out more quickly than it is replaced.
  if (!ESCAPED.test(value)) return `"${value}"`;
  const escaped = value.replace(/["\\\u0000-\u001f]/g, (character) =>
    character < " " ? `\\u00${character.charCodeAt(0).toString(16).padStart(2, "0")}` : `\\${character}`,
  );
  return `"${escaped}"`;
}

function writeObject(value: object, depth: number): string | undefined {
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(), depth + 1);
  if (Array.isArray(value)) {
    let items = "";
    for (let index = 0; index < value.length; index += 1) items += `${index === 0 ? "" : ","}${write(value[index], depth + 1) ?? "null"}`;
    return `[${items}]`;
  }
  const members: string[] = [];
  for (const name of Object.keys(value).sort(byCodePoint)) {
    const member = write((value as Record<string, unknown>)[name], depth + 1);
    if (member !== undefined) members.push(`${writeString(name)}:${member}`);
  }
  return `{${members.join(",")}}`;
}

/** The order of UTF-8 bytes, which is that of code points; JavaScript's own is that of UTF-16 and differs beyond U+FFFF. */
function byCodePoint(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index += 1) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a !== b) return rank(a) - rank(b);
  }
  return left.length - right.length;
}

/** Surrogates stand for what is above everything else. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
