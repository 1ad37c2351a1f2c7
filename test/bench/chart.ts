import type { Cost } from './measure.ts';
import { digits, type Results } from './report.ts';

const width = 960;
const left = 250;
const right = 30;
const barHeight = 16;
const groupGap = 18;
const colors = ['#64748b', '#0ea5e9', '#16a34a', '#f59e0b', '#dc2626', '#7c3aed'];

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** CPU time per request or chunk as bars on a logarithmic scale, with the range of the rounds as a line. */
export function cpuChart({ workloads, contenders, at, commit }: Results): string {
  const costs = workloads.flatMap(({ costs }) => Object.values(costs)).filter(isTold);
  if (costs.length === 0) return '';
  const lowest = 10 ** Math.floor(Math.log10(Math.min(...costs.map(({ cpuUs }) => cpuUs.min)) / 1.01));
  const highest = 10 ** Math.ceil(Math.log10(Math.max(...costs.map(({ cpuUs }) => cpuUs.max))));
  const x = (us: number): number =>
    left + ((width - left - right) * Math.log(us / lowest)) / Math.log(highest / lowest);

  const body: string[] = [];
  let y = 64;
  for (const { title, unit, costs: ofWorkload } of workloads) {
    const shown = contenders.filter(({ name }) => ofWorkload[name] !== undefined);
    body.push(text(left - 10, y + (shown.length * barHeight) / 2, `${title}, per ${unit}`, 'end'));
    for (const contender of shown) {
      const cost = ofWorkload[contender.name]!;
      const color = colors[contenders.indexOf(contender) % colors.length]!;
      const middle = y + barHeight / 2;
      if (isTold(cost)) {
        const { median, min, max } = cost.cpuUs;
        body.push(
          `<rect x="${left}" y="${y + 2}" width="${round(x(median) - left)}" height="${barHeight - 4}" fill="${color}"><title>${escaped(contender.title)}: ${digits(median)} µs (${digits(min)} to ${digits(max)})</title></rect>`,
          `<line x1="${round(x(min))}" x2="${round(x(max))}" y1="${middle}" y2="${middle}" stroke="#0f172a" stroke-width="1.5"/>`,
          text(x(max) + 5, middle, `${digits(median)}`, 'start'),
        );
      } else {
        body.push(text(left + 5, middle, `refused: ${cost.refused}`, 'start', '#64748b'));
      }
      y += barHeight;
    }
    y += groupGap;
  }
  const grid: string[] = [];
  for (let us = lowest; us <= highest; us *= 10) {
    grid.push(
      `<line x1="${round(x(us))}" x2="${round(x(us))}" y1="56" y2="${y - groupGap + 4}" stroke="#e2e8f0"/>`,
      text(x(us), y, `${digits(us)} µs`, 'middle', '#475569'),
    );
  }
  const legend = contenders.map(({ title }, index) => {
    const at = right + (index * (width - 2 * right)) / Math.max(contenders.length, 5);
    return `<rect x="${at}" y="34" width="11" height="11" fill="${colors[index % colors.length]}"/>${text(at + 16, 40, title, 'start')}`;
  });
  const height = y + 20;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11" role="img" aria-label="CPU time per request and per chunk">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    text(
      left,
      18,
      `CPU time in µs, logarithmic; line: range of the rounds (${at.slice(0, 10)}, ${commit})`,
      'start',
      '#0f172a',
    ),
    ...grid,
    ...legend,
    ...body,
    '</svg>\n',
  ].join('\n');
}

const isTold = (cost: Cost): cost is Exclude<Cost, { refused: string }> => !('refused' in cost);
const round = (value: number): number => Math.round(value * 10) / 10;
const text = (x: number, y: number, words: string, anchor: string, fill = '#1e293b'): string =>
  `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" dominant-baseline="central" fill="${fill}">${escaped(words)}</text>`;
