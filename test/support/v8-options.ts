/**
 * For test processes and those that they start, which then share what they have compiled. As in `npm start`: with less room V8 collects
 * garbage constantly while modules are loaded, and the whole heap again and again while large bodies come and go, for a tenth of a run.
 */
export const v8Options = [
  '--min-semi-space-size=16',
  '--external-memory-accounted-in-global-limit',
  '--heap-growing-percent=200',
];
