import { classNames } from './class-names.ts';

/** Icons on a 16 × 16 grid, in the colour of the text. They are decoration: the words next to them say the same. */
const paths = {
  home: 'M2.5 7.5 8 3l5.5 4.5V13a.5.5 0 0 1-.5.5H9.5V10h-3v3.5H3a.5.5 0 0 1-.5-.5z',
  key: 'M10.2 8.3a3.2 3.2 0 1 0-2.5-2.5L2.5 11v2.5H5V12h1.5v-1.5H8zM11 5h.01',
  model: 'M8 2.2 13.5 5v6L8 13.8 2.5 11V5zM2.5 5 8 7.8 13.5 5M8 7.8v6',
  play: 'M3 3.5h10v7H8.5L5.5 13v-2.5H3zM5.5 6.2h5M5.5 8h3',
  chart: 'M2.5 13.5h11M4.5 11V7.5M8 11V3.5M11.5 11V6',
  gauge: 'M2.5 11a5.5 5.5 0 1 1 11 0M8 11l2.6-3.6',
  card: 'M2.5 4h11v8h-11zM2.5 6.8h11M5 9.8h2',
  job: 'M8 2.5a5.5 5.5 0 1 0 5.5 5.5M8 5v3l2 1.5M11 2.5h2.5V5',
  people:
    'M6 7.5a2.25 2.25 0 1 0 0-4.5 2.25 2.25 0 0 0 0 4.5zM2 13c0-2.2 1.8-3.5 4-3.5s4 1.3 4 3.5M10.5 3.3a2.2 2.2 0 0 1 0 4M11.8 9.8c1.4.5 2.2 1.6 2.2 3.2',
  shield: 'M8 2 3 4v4c0 3 2.2 5 5 6 2.8-1 5-3 5-6V4zM5.8 8l1.6 1.6L10.4 6.6',
  log: 'M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5',
  server: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  mail: 'M2.5 4h11v8h-11zM2.5 4.5 8 8.8l5.5-4.3',
  ticket: 'M2.5 4.5h11v2a1.5 1.5 0 0 0 0 3v2h-11v-2a1.5 1.5 0 0 0 0-3zM9.5 5v6',
  sunset: 'M2 12.5h12M4.5 10a3.5 3.5 0 0 1 7 0M8 2.5V5M3 5.5l1.2 1.2M13 5.5l-1.2 1.2',
  pulse: 'M1.5 8H5l1.5-4 3 8L11 8h3.5',
  price:
    'M8 2v12M11 4.5c-.6-.8-1.700-1.200-3-1.200-1.800 0-3 .8-3 2.200 0 3.200 6.200 1.600 6.200 4.900 0 1.500-1.400 2.300-3.200 2.300-1.500 0-2.700-.500-3.300-1.500',
  settings:
    'M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM8 1.800v1.700M8 12.500v1.700M1.800 8h1.700M12.500 8h1.700M3.600 3.600l1.200 1.200M11.200 11.200l1.200 1.200M3.600 12.400l1.200-1.200M11.200 4.800l1.200-1.200',
  search: 'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.200 3.200',
  plus: 'M8 3.500v9M3.500 8h9',
  copy: 'M5.500 5.500h8v8h-8zM3 10.500h-.500v-8h8V3',
  check: 'M3 8.500 6.500 12 13 4.500',
  close: 'M4 4l8 8M12 4l-8 8',
  menu: 'M2.500 4.500h11M2.500 8h11M2.500 11.500h11',
  more: 'M3.500 8h.01M8 8h.01M12.500 8h.01',
  down: 'M4 6.500l4 4 4-4',
  right: 'M6.500 4l4 4-4 4',
  left: 'M9.500 4l-4 4 4 4',
  warning: 'M8 2.500 14.500 13.500h-13zM8 6.500v3.500M8 11.800h.01',
  info: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.200v3.600M8 5.200h.01',
  download: 'M8 2.500v8M4.800 7.500 8 10.700l3.200-3.200M3 13.500h10',
  code: 'M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5M9.2 3 6.800 13',
  sun: 'M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9',
  moon: 'M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z',
  monitor: 'M2.500 3h11v7.500h-11zM6 13.500h4M8 10.500v3',
  out: 'M6.500 2.500H3v11h3.500M10 5l3 3-3 3M13 8H6.500',
  mic: 'M8 10a2 2 0 0 0 2-2V4.500a2 2 0 1 0-4 0V8a2 2 0 0 0 2 2zM4 8a4 4 0 0 0 8 0M8 12v2',
  stop: 'M4 4h8v8H4z',
  send: 'M8 13V3.500M4 7.500l4-4 4 4',
  refresh: 'M13 5.500A5.500 5.500 0 1 0 13.500 8M13.500 2.500v3.200h-3.200',
  edit: 'M3 13l.6-2.800L11 2.800 13.200 5l-7.400 7.400zM9.500 4.300l2.200 2.200',
  trash: 'M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.5 9h6l.5-9',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, className = '' }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 16 16"
      className={classNames('shrink-0', !className.includes('size-') && 'size-4', className)}
      fill="none"
      stroke="currentColor"
      strokeWidth={name === 'more' ? 2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  );
}
