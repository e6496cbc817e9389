// Keys, for people who do not like to let go of them.

import { go } from "./hooks";

const GOES: Record<string, string> = {
  o: "#/",
  t: "#/topics",
  m: "#/messages",
  d: "#/letters",
  e: "#/effects",
  r: "#/runs",
  j: "#/jobs",
  a: "#/audit",
};

export const KEYS: [string, string][] = [
  ["/", "search on this page"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["g o", "overview"],
  ["g t", "topics"],
  ["g m", "messages"],
  ["g d", "dead letters"],
  ["g e", "effects"],
  ["g r", "runs"],
  ["g j", "jobs"],
  ["g a", "audit"],
  ["Esc", "close, or leave a field"],
  ["?", "this list"],
];

const PREFIX_MS = 1_000;

export function installKeys(help: () => void): () => void {
  let prefixed = 0;
  const pressed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target as HTMLElement;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const isPrefixed = Date.now() - prefixed < PREFIX_MS;
    prefixed = 0;
    if (isPrefixed && GOES[event.key]) go(GOES[event.key]!);
    else if (event.key === "g") prefixed = Date.now();
    else if (event.key === "?") help();
    else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

function step(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>(".row-link")];
  const at = links.indexOf(document.activeElement as HTMLElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
}
