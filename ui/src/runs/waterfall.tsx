// Lanes over time: what waited, what backed off, what was worked on.

import { useState } from "preact/hooks";

import { duration } from "../format";
import { Empty, Pill } from "../parts";
import { type Bar, gist, type Kind, type Lane, type StepLanes } from "./lanes";

const KINDS: [Kind, string][] = [["wait", "waits"], ["retry", "backs off"], ["work", "worked on"], ["effect", "effect"], ["held", "unknown"], ["output", "output"]];
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** From so much waiting on, what happened before it is too small to be seen. */
const DWARFED = 8;

export function Waterfall({ steps, now, isOpen }: { steps: StepLanes[]; now: number; isOpen: boolean }) {
  const [isNear, setNear] = useState(false);
  const bars = steps.flatMap((step) => step.lanes.flatMap((lane) => lane.bars));
  if (bars.length === 0) return <Empty>Nothing of it is kept any more.</Empty>;
  const start = Math.min(...bars.map((bar) => bar.from));
  const whole = Math.max(start + 1, ...bars.map((bar) => bar.to));
  const happened = Math.max(start + 1, ...bars.map((bar) => (bar.isOpen ? bar.from : bar.to)));
  const isDwarfed = isOpen && whole - start > DWARFED * (happened - start);
  const end = isNear && isDwarfed ? start + (happened - start) * 1.2 : whole;
  const shown = new Set(bars.map((bar) => bar.kind));
  return (
    <div class="waterfall">
      <div class="legend">
        {KINDS.filter(([kind]) => shown.has(kind)).map(([kind, name]) => (
          <span key={kind}>
            <i class={`bar ${kind}`} aria-hidden="true" /> {name}
          </span>
        ))}
        {isDwarfed && (
          <button type="button" aria-pressed={isNear} onClick={() => setNear(!isNear)}>
            Zoom to what happened
          </button>
        )}
      </div>
      <div class="lane scale" aria-hidden="true">
        <span />
        <span class="ticks">
          {TICKS.map((tick) => (
            <span key={tick} style={{ left: `${tick * 100}%` }}>{tick === 1 && isOpen && end === whole ? "now" : duration((end - start) * tick)}</span>
          ))}
        </span>
      </div>
      <ul class="lanes">
        {steps.map((step) => (
          <li key={step.name}>
            <p class="lane-step">{step.name || "without a step"}</p>
            <ul>
              {step.lanes.map((lane) => (
                <Row key={lane.id} lane={lane} start={start} end={end} now={now} />
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Row({ lane, start, end, now }: { lane: Lane; start: number; end: number; now: number }) {
  const [isTold, setTold] = useState(false);
  const percent = (moment: number) => (Math.max(0, Math.min(moment, end) - start) / (end - start)) * 100;
  const style = (bar: Bar) => ({ left: `min(${percent(bar.from)}%, 100% - 3px)`, width: bar.kind === "output" ? "9px" : `max(3px, ${percent(bar.to) - percent(bar.from)}%)` });
  const words = (bar: Bar) => `${bar.words}${bar.to > bar.from ? `, ${duration(bar.to - bar.from)}` : ""}`;
  return (
    <li>
      <div class="lane">
        <span class="lane-name">
          <a href={lane.to}>{lane.name}</a> {lane.of && <span class="dim">{lane.of}</span>} <Pill state={lane.state} />
        </span>
        <button type="button" class="lane-bars" aria-expanded={isTold} aria-label={`${lane.name}: ${gist(lane, now)}`} onClick={() => setTold(!isTold)}>
          {lane.bars.map((bar, place) => (
            <i key={place} class={`bar ${bar.kind}${bar.isOpen ? " open" : ""}`} title={words(bar)} style={style(bar)} />
          ))}
        </button>
        <span class="lane-gist dim">{gist(lane, now)}</span>
      </div>
      {isTold && (
        <ol class="lane-told">
          {lane.bars.map((bar, place) => (
            <li key={place}>
              <i class={`bar ${bar.kind}`} aria-hidden="true" /> <span class="dim">+{duration(bar.from - start)}</span> {words(bar)}
            </li>
          ))}
        </ol>
      )}
    </li>
  );
}
