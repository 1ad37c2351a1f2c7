import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef, useState } from 'react';
import UPlot from 'uplot';
import { useIsDark } from '../shell/theme.ts';
import type { Bar } from './chart.tsx';

type BarChartProps = {
  label: string;
  bars: readonly Bar[];
  format: (value: number) => string;
  axisFormat: (value: number) => string;
};

const height = 256;
const font = '11px ui-sans-serif, system-ui, sans-serif';

/**
 * Bars drawn by uPlot. The x axis counts buckets, and we label it ourselves: days and months differ in length, and a time axis would shift
 * them at clock changes.
 */
export function BarChart({ label, bars, format, axisFormat }: BarChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const dark = useIsDark();
  const [pointed, setPointed] = useState<{ index: number; left: number } | null>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of theme changes the colours read from the page.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const plot = new UPlot(
      optionsOf(element, bars, axisFormat, (self) => {
        const index = self.cursor.idx;
        setPointed(
          index == null || (self.cursor.left ?? -1) < 0
            ? null
            : { index, left: self.valToPos(index, 'x') + self.over.offsetLeft },
        );
      }),
      [bars.map((_, index) => index), bars.map(({ value }) => value)],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
      setPointed(null);
    };
  }, [bars, axisFormat, dark]);

  const bar = pointed === null ? undefined : bars[pointed.index];
  const width = box.current?.clientWidth ?? 0;
  return (
    <div className="relative">
      <div
        ref={box}
        role="img"
        aria-label={`${label}: a bar chart of ${bars.length} buckets. The numbers follow as a table.`}
        className="h-64 w-full"
      />
      {bar !== undefined && pointed !== null && (
        <div
          className="raised pointer-events-none absolute top-2 z-10 rounded-md bg-surface px-2.5 py-1.5 text-xs whitespace-nowrap"
          style={{
            left: pointed.left,
            transform: `translateX(${pointed.left > width / 2 ? 'calc(-100% - 10px)' : '10px'})`,
          }}
        >
          <span className="block text-faint">{bar.title}</span>
          <span className="text-sm font-semibold tabular">{format(bar.value)}</span>
        </div>
      )}
    </div>
  );
}

function optionsOf(
  element: HTMLElement,
  bars: readonly Bar[],
  axisFormat: (value: number) => string,
  onCursor: (self: UPlot) => void,
): UPlot.Options {
  const colour = (name: string) => resolvedColour(element, name);
  const faint = colour('--faint');
  const line = colour('--line');
  const max = Math.max(0, ...bars.map(({ value }) => value));
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, range: [-0.5, Math.max(bars.length, 1) - 0.5] },
      y: { range: [0, max === 0 ? 1 : max * 1.08] },
    },
    axes: [
      {
        stroke: faint,
        font,
        grid: { show: false },
        ticks: { show: false },
        gap: 6,
        size: 28,
        splits: () => splitsOf(bars, element.clientWidth),
        values: (_, splits) => splits.map((at) => bars[at]?.label ?? ''),
      },
      {
        stroke: faint,
        font,
        size: widthOfLabels,
        gap: 8,
        ...(bars.every(({ value }) => Number.isInteger(value)) && { incrs: wholeSteps }),
        ticks: { show: false },
        grid: { stroke: line, width: 1 },
        values: (_, splits) => splits.map((value) => (max === 0 && value !== 0 ? '' : axisFormat(value))),
      },
    ],
    series: [
      {},
      {
        fill: colour('--accent'),
        width: 0,
        points: { show: false },
        paths: UPlot.paths.bars!({ size: [0.7, 36], radius: 0.12 }),
      },
    ],
    hooks: { setCursor: [onCursor] },
  };
}

/** The steps of an axis that counts: a step of half a request would be labelled as a whole one. */
const wholeSteps = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

const widthMin = 56;

/** As wide as the longest label of the y axis, such as a fraction of a cent. */
function widthOfLabels({ ctx }: UPlot, labels: readonly string[] | null): number {
  ctx.save();
  ctx.font = font;
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width);
  ctx.restore();
  return Math.max(widthMin, ...widths.map((width) => Math.ceil(width) + 16));
}

/** As many labels as fit, evenly spaced. */
function splitsOf(bars: readonly Bar[], width: number): number[] {
  const fits = Math.max(2, Math.floor((width - widthMin) / 76));
  const step = Math.max(1, Math.ceil(bars.length / fits));
  return bars.flatMap((_, index) => (index % step === 0 ? [index] : []));
}

/** A canvas knows neither CSS variables nor light-dark(), so the colour is read from an element that uses it. */
function resolvedColour(element: HTMLElement, name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
