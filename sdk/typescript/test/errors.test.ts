import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as driftq from "../src/index.js";
import { refusal, refusals } from "../src/refusals.js";

interface Entry {
  code: string;
  status: number;
  retryable: boolean;
}
const catalogue = JSON.parse(readFileSync(new URL("../../../docs/errors.json", import.meta.url), "utf8")) as Entry[];

test("there is one class for every code of the catalogue, and no other", () => {
  expect(Object.keys(refusals).sort()).toEqual(catalogue.map(({ code }) => code).sort());
});

test.each(catalogue)("$code", ({ code, status, retryable }) => {
  const name = code.split("_").map((word) => word[0] + word.slice(1).toLowerCase()).join("");
  const error = refusal({ code, status, retryable, detail: "why", help: "what to do", retry_after_ms: 5 }, "request-1");
  expect(error).toBeInstanceOf((driftq as Record<string, unknown>)[name]);
  expect(error).toBeInstanceOf(driftq.Refused);
  expect(error).toBeInstanceOf(driftq.DriftQError);
  expect(error).toMatchObject({ name, code, status, retryable, detail: "why", help: "what to do", retryAfterMs: 5, requestId: "request-1" });
  expect(error.message).toContain("what to do");
});

test("a code that nobody knows yet is a plain refusal", () => {
  for (const code of ["NEW_CODE", "constructor", "toString"]) {
    const error = refusal({ code, status: 409, retryable: false, detail: "why" });
    expect(error.constructor).toBe(driftq.Refused);
    expect(error.code).toBe(code);
  }
});
