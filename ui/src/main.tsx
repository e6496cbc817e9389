// The frame: who looks, where they are, and the keyboard.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";

import { call, isAway, post, whenSignedOut, whoAmI } from "./api";
import { go, useRoute } from "./hooks";
import { installKeys, KEYS } from "./keyboard";
import { useLive, watch, type Standing } from "./live";
import { PAGES, pageOf } from "./pages";
import { Dialog, Field, Trouble } from "./parts";
import { Who } from "./session";
import { theme, useTheme } from "./theme";
import type { Session } from "./types";
import "./style.css";

const STANDINGS: Record<Standing, string> = {
  connecting: "connecting",
  open: "live",
  paused: "paused",
  lost: "the server is away; trying again",
  off: "asking every 5 s",
};

type Known = Session | "asking" | "stranger";

function App() {
  const [who, setWho] = useState<Known>("asking");
  const [error, setError] = useState<unknown>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    whenSignedOut(() => {
      watch(false);
      setWho("stranger");
    });
    let timer: number | undefined;
    whoAmI().then(
      (session) => {
        setError(undefined);
        setWho(session);
        watch(true);
      },
      (refused) => {
        setError(refused);
        if (isAway(refused)) timer = window.setTimeout(() => setTurn(turn + 1), 1_000);
      },
    );
    return () => window.clearTimeout(timer);
  }, [turn]);
  if (who === "stranger") return <SignIn done={() => (setWho("asking"), setTurn(turn + 1))} />;
  if (who === "asking") {
    return (
      <main class="alone">
        <Trouble error={error} />
        {!error && <p class="loading">Loading…</p>}
      </main>
    );
  }
  return (
    <Who.Provider value={who}>
      <Frame who={who} signedOut={() => (watch(false), setWho("stranger"))} />
    </Who.Provider>
  );
}

function SignIn({ done }: { done: () => void }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState<unknown>();
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await post("/v2/session", { key: key.trim() });
      done();
    } catch (refused) {
      setError(refused);
    }
  };
  return (
    <main class="alone">
      <form class="card sign-in" onSubmit={(event) => void submit(event)}>
        <h1>
          <Logo /> DriftQ
        </h1>
        <p>This server asks for keys. What yours does not allow is not offered.</p>
        <Field
          label="Key"
          type="password"
          value={key}
          set={setKey}
          required
          hint="It begins with dq_. The browser keeps a cookie that ends in twelve hours, and not the key."
        />
        <Trouble error={error} />
        <button class="primary" type="submit">
          Sign in
        </button>
      </form>
    </main>
  );
}

const Logo = () => (
  <svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
    <rect width="16" height="16" rx="4" />
    <path d="M3 5h7M3 8h10M3 11h5" />
  </svg>
);

function Frame({ who, signedOut }: { who: Session; signedOut: () => void }) {
  const place = useRoute();
  const live = useLive();
  const [isOpen, setOpen] = useState(false);
  const [isHelped, setHelped] = useState(false);
  const chosen = useTheme();
  const page = pageOf(place.names);
  const here = place.names.join("/");
  useEffect(() => installKeys(() => setHelped(true)), []);
  useEffect(() => {
    setOpen(false);
    document.title = `${page.name} · DriftQ`;
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [here, page.name]);
  const offered = PAGES.filter((each) => !each.action || who.actions.includes(each.action));
  const badges: Record<string, number | undefined> = {
    letters: live.sample?.dead_letters,
    effects: live.sample?.effects_unknown,
  };
  const signOut = () => void call("DELETE", "/v2/session").finally(signedOut);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the page
      </a>
      <div class="bar">
        <button class="menu" type="button" aria-expanded={isOpen} aria-controls="nav" onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
        <a class="brand" href="#/">
          <Logo /> DriftQ
        </a>
        <span class={`standing ${live.standing}`} role="status">
          <span class="dot" aria-hidden="true" />
          {STANDINGS[live.standing]}
        </span>
        <span class="spring" />
        <span class="who wide" title={who.note}>
          {who.keys_required ? who.actor : ""}
        </span>
        {who.keys_required && (
          <button type="button" onClick={signOut}>
            Sign out
          </button>
        )}
        <button type="button" aria-label={`Colours: ${chosen}. Change`} onClick={() => theme.next()}>
          {{ auto: "Auto", light: "Light", dark: "Dark" }[chosen]}
        </button>
        <button type="button" class="wide" aria-label="Keyboard" onClick={() => setHelped(true)}>
          ?
        </button>
      </div>
      <nav id="nav" class={isOpen ? "open" : ""} aria-label="Pages">
        <ul>
          {offered.map((each) => (
            <li key={each.id}>
              <a href={`#/${each.id}`} aria-current={each === page ? "page" : undefined}>
                {each.name}
                {!!badges[each.id] && <span class="badge">{badges[each.id]}</span>}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" tabIndex={-1}>
        <page.view key={page.id === "topics" || page.id === "runs" ? here : page.id} names={place.names.slice(1)} query={place.query} />
      </main>
      {isHelped && (
        <Dialog title="Keyboard" close={() => setHelped(false)}>
          <dl class="facts keys">
            {KEYS.map(([keys, what]) => (
              <>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{what}</dd>
              </>
            ))}
          </dl>
          <div class="dialog-end">
            <button type="button" class="primary" onClick={() => setHelped(false)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

theme.apply();
if (!location.hash) go("#/");
render(<App />, document.getElementById("app")!);
