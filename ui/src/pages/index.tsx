// Every page, in the order of the menu.

import type { FunctionComponent } from "preact";

import { Audit } from "./audit";
import { Commits } from "./commits";
import { Deliveries, Endpoints, Exports } from "./connectors";
import { Effects } from "./effects";
import { Jobs } from "./jobs";
import { Keys } from "./keys";
import { Letters } from "./letters";
import { Messages } from "./messages";
import { Outputs } from "./outputs";
import { Overview } from "./overview";
import { Runs } from "./runs";
import { Server } from "./server";
import { Tenants } from "./tenants";
import { Topics } from "./topics";

export interface PageProps {
  /** What follows the page in the address. */
  names: string[];
  query: URLSearchParams;
}

export interface PageEntry {
  id: string;
  name: string;
  view: FunctionComponent<PageProps>;
  /** What a key must allow for it to be offered. */
  action?: string;
}

export const PAGES: PageEntry[] = [
  { id: "", name: "Overview", view: Overview },
  { id: "topics", name: "Topics", view: Topics },
  { id: "messages", name: "Messages", view: Messages },
  { id: "letters", name: "Dead letters", view: Letters },
  { id: "effects", name: "Effects", view: Effects },
  { id: "runs", name: "Runs", view: Runs },
  { id: "commits", name: "Commits", view: Commits },
  { id: "outputs", name: "Outputs", view: Outputs },
  { id: "jobs", name: "Jobs", view: Jobs },
  { id: "endpoints", name: "Endpoints", view: Endpoints },
  { id: "deliveries", name: "Deliveries", view: Deliveries },
  { id: "exports", name: "Exports", view: Exports },
  { id: "tenants", name: "Tenants", view: Tenants },
  { id: "keys", name: "Keys", view: Keys, action: "admin" },
  { id: "audit", name: "Audit", view: Audit, action: "admin" },
  { id: "server", name: "Server", view: Server },
];

export const pageOf = (names: string[]): PageEntry => PAGES.find((page) => page.id === (names[0] ?? "")) ?? PAGES[0]!;
