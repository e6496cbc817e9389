// Light, dark, or as the system says.

import { useEffect, useState } from "preact/hooks";

const CHOICES = ["auto", "light", "dark"] as const;
export type Choice = (typeof CHOICES)[number];
const PLACE = "driftq-theme";

let chosen: Choice = CHOICES.find((choice) => choice === localStorage.getItem(PLACE)) ?? "auto";

const apply = () => {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  dispatchEvent(new Event("themechange"));
};

export const theme = {
  apply,
  next(): void {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length]!;
    localStorage.setItem(PLACE, chosen);
    apply();
  },
};

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);

export function useTheme(): Choice {
  const [seen, see] = useState(chosen);
  useEffect(() => {
    const changed = () => see(chosen);
    addEventListener("themechange", changed);
    return () => removeEventListener("themechange", changed);
  }, []);
  return seen;
}
