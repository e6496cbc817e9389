// The steps of a run and which one caused which, from left to right.

import { count } from "../format";
import { Pill } from "../parts";
import { type Lane, stateOf, type StepLanes } from "./lanes";

const WIDTH = 232;
const GAP_X = 52;
const GAP_Y = 14;
const HEAD = 34;
const ROW = 22;
const ROWS_MAX = 5;

interface Node {
  step: StepLanes;
  x: number;
  y: number;
  height: number;
  /** Lanes that are listed in the box, and how many are not. */
  rows: Lane[];
  more: number;
}

/** Boxes in columns by how far they are from a first step; a child stands no higher than its parent. */
export function layout(steps: StepLanes[]): { nodes: Node[]; edges: [Node, Node][]; width: number; height: number } {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const children = new Map<StepLanes, StepLanes[]>();
  const roots: StepLanes[] = [];
  for (const step of steps) {
    const parent = step.parent === undefined ? undefined : byName.get(step.parent);
    if (parent && parent !== step) children.set(parent, [...(children.get(parent) ?? []), step]);
    else roots.push(step);
  }
  const placed = new Map<StepLanes, Node>();
  const edges: [Node, Node][] = [];
  const bottom: number[] = [];
  const place = (step: StepLanes, depth: number, least: number): Node | undefined => {
    if (placed.has(step)) return undefined;
    const shown = step.lanes.length > ROWS_MAX ? ROWS_MAX - 1 : step.lanes.length;
    const height = HEAD + ROW * Math.min(step.lanes.length, ROWS_MAX) + (step.lanes.length > 0 ? 6 : 0);
    const y = Math.max(least, bottom[depth] ?? 0);
    const node = { step, x: depth * (WIDTH + GAP_X), y, height, rows: step.lanes.slice(0, shown), more: step.lanes.length - shown };
    placed.set(step, node);
    bottom[depth] = y + height + GAP_Y;
    for (const child of children.get(step) ?? []) {
      const below = place(child, depth + 1, y);
      if (below) edges.push([node, below]);
    }
    return node;
  };
  // What lies in a circle has no first step: it is begun anywhere.
  for (const step of [...roots, ...steps]) place(step, 0, 0);
  const nodes = [...placed.values()];
  return {
    nodes,
    edges,
    width: Math.max(0, ...nodes.map((node) => node.x)) + WIDTH,
    height: Math.max(0, ...nodes.map((node) => node.y + node.height)),
  };
}

export function Graph({ steps }: { steps: StepLanes[] }) {
  const { nodes, edges, width, height } = layout(steps);
  return (
    <div class="graph" role="region" aria-label="Steps" tabIndex={0}>
      <div class="graph-inner" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {edges.map(([from, to]) => {
            const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEAD / 2, to.x, to.y + HEAD / 2];
            const middle = (x1 + x2) / 2;
            return <path key={`${from.step.name}/${to.step.name}`} d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - 5} ${y2}m-4 -4l5 4l-5 4`} />;
          })}
        </svg>
        <ol>
          {nodes.map((node) => (
            <li key={node.step.name} class="node" style={{ left: `${node.x}px`, top: `${node.y}px`, width: `${WIDTH}px`, height: `${node.height}px` }}>
              <div class="node-head">
                <b>{node.step.name || "without a step"}</b>
                <Pill state={stateOf(node.step.lanes)} />
              </div>
              {node.step.parent !== undefined && <span class="spoken">caused by {node.step.parent}</span>}
              {node.rows.map((lane) => (
                <a key={lane.id} class="node-row" href={lane.to} title={`${lane.what} ${lane.name} ${lane.of ?? ""}`}>
                  <i class={`mark ${lane.what} ${lane.state}`} aria-hidden="true" />
                  <span class="spoken">{lane.what}</span> {lane.name} {lane.of && <span class="dim">{lane.of}</span>}
                </a>
              ))}
              {node.more > 0 && <span class="node-row dim">and {count(node.more)} more</span>}
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}
