import type { Segment } from './listening.ts';

/** SubRip: numbered cues, a comma before the milliseconds. */
export const srtOf = (segments: readonly Segment[]): string =>
  segments
    .map(({ start, end, text }, i) => `${i + 1}\n${timeOf(start, ',')} --> ${timeOf(end, ',')}\n${text}\n\n`)
    .join('');

/** WebVTT (W3C). */
export const vttOf = (segments: readonly Segment[]): string =>
  `WEBVTT\n\n${segments.map(({ start, end, text }) => `${timeOf(start, '.')} --> ${timeOf(end, '.')}\n${text}\n\n`).join('')}`;

function timeOf(seconds: number, mark: string): string {
  const totalMs = Math.round(seconds * 1000);
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const hours = two(totalMs / 3_600_000);
  const minutes = two((totalMs / 60_000) % 60);
  return `${hours}:${minutes}:${two((totalMs / 1000) % 60)}${mark}${String(totalMs % 1000).padStart(3, '0')}`;
}
