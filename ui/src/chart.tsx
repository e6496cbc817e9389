// Lines of the last hour.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 44;

/** A small line without axes. */
export function Spark({ times, values, label }: { times: number[]; values: (number | null)[]; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // As computed, which is a colour whatever the theme: a canvas knows nothing of variables.
    const style = getComputedStyle(element);
    const wash = () => style.color.replace("rgb(", "rgba(").replace(")", ", 0.14)");
    const made = new uPlot(
      {
        width: element.clientWidth || 120,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [4, 0, 2, 0],
        axes: [{ show: false }, { show: false }],
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(max ?? 0, 1) * 1.1] } },
        series: [{}, { stroke: () => style.color, width: 1.5, points: { show: false }, spanGaps: false, fill: wash }],
      },
      [[], []],
      element,
    );
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    const redraw = () => made.redraw();
    addEventListener("themechange", redraw);
    return () => {
      removeEventListener("themechange", redraw);
      sized.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, []);
  useEffect(() => plot.current?.setData([times, values]), [times, values]);
  return <div class="spark" ref={box} role="img" aria-label={label} />;
}
