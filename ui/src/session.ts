// Who looks, and what they may do.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

import type { Session } from "./types";

export const Who = createContext<Session>({ keys_required: false, actor: "anybody", actions: [] });

/** Whether the person may do something of a kind: what they may not do is not offered. */
export function useMay(): (action: string) => boolean {
  const who = useContext(Who);
  return (action) => who.actions.includes(action);
}
