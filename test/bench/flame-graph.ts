/** What `node --cpu-prof` writes. */
type Profile = {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  /** In µs of the monotonic clock, like process.hrtime. */
  startTime: number;
  samples: number[];
  /** The time since the previous sample, in µs. */
  timeDeltas: number[];
};

type Frame = { name: string; origin: keyof typeof colors; us: number; children: Map<string, Frame> };

const colors = {
  gateway: '#fb923c',
  packages: '#60a5fa',
  node: '#4ade80',
  native: '#cbd5e1',
  collector: '#f472b6',
} as const;

const width = 1_200;
const rowHeight = 16;
/** Frames narrower than this, in pixels, are left out with everything that they call. */
const widthMin = 1.5;

/**
 * An SVG flame graph of the part of a profile between two moments (in µs of the monotonic clock). Time in which the process waited is left
 * out: the whole width is CPU time. A tooltip shows each frame's name, place and share.
 */
export function flameGraph(profile: Profile, options: { title: string; fromUs: number; toUs: number }): string {
  const { title, fromUs, toUs } = options;
  const root = collect(profile, fromUs, toUs);
  const body: string[] = [];
  let deepest = 0;
  const draw = (frame: Frame, x: number, depth: number): void => {
    const frameWidth = (frame.us / root.us) * width;
    if (frameWidth < widthMin) return;
    deepest = Math.max(deepest, depth);
    const y = 40 + depth * rowHeight;
    const part = `${((frame.us / root.us) * 100).toFixed(1)}%`;
    const letters = Math.floor((frameWidth - 4) / 6);
    const short = frame.name.replace(/ \S+:\d+$/, '');
    const label = letters < 3 ? '' : short.length > letters ? `${short.slice(0, letters - 1)}…` : short;
    body.push(
      `<g><title>${escaped(frame.name)} ${part}</title><rect x="${x.toFixed(1)}" y="${y}" width="${(frameWidth - 0.4).toFixed(1)}" height="${rowHeight - 1}" fill="${colors[frame.origin]}"/>${label && `<text x="${(x + 3).toFixed(1)}" y="${y + 11}">${escaped(label)}</text>`}</g>`,
    );
    let childX = x;
    for (const child of [...frame.children.values()].toSorted((a, b) => b.us - a.us)) {
      draw(child, childX, depth + 1);
      childX += (child.us / root.us) * width;
    }
  };
  draw(root, 0, 0);
  const legend = Object.entries(colors).map(
    ([name, color], index) =>
      `<rect x="${width - 420 + index * 84}" y="14" width="10" height="10" fill="${color}"/><text x="${width - 406 + index * 84}" y="23">${name}</text>`,
  );
  const height = 40 + (deepest + 1) * rowHeight + 10;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, monospace" font-size="10">`,
    `<rect width="${width}" height="${height}" fill="#fff"/><text x="4" y="23" font-size="13">${escaped(title)}</text>`,
    ...legend,
    ...body,
    '</svg>\n',
  ].join('\n');
}

/** Combines the samples between two moments into one tree, in which calls of the same function from the same place are one frame. */
function collect({ nodes, samples, timeDeltas, startTime }: Profile, fromUs: number, toUs: number): Frame {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children }) => (children ?? []).map((child) => [child, id] as const)));
  const root: Frame = { name: 'all CPU time', origin: 'native', us: 0, children: new Map() };
  let nowUs = startTime;
  samples.forEach((sample, index) => {
    const us = timeDeltas[index]!;
    nowUs += us;
    if (nowUs < fromUs || nowUs > toUs || byId.get(sample)!.callFrame.functionName === '(idle)') return;
    const stack = [];
    // The outermost node is the profiler's own root.
    for (let id: number | undefined = sample; id !== undefined && parents.has(id); id = parents.get(id)) {
      stack.push(byId.get(id)!);
    }
    root.us += us;
    let frame = root;
    for (const { callFrame } of stack.reverse()) {
      const name = nameOf(callFrame);
      let child = frame.children.get(name);
      if (child === undefined) {
        child = { name, origin: originOf(callFrame), us: 0, children: new Map() };
        frame.children.set(name, child);
      }
      child.us += us;
      frame = child;
    }
  });
  return root;
}

type CallFrame = Profile['nodes'][number]['callFrame'];

function nameOf({ functionName, url, lineNumber }: CallFrame): string {
  const name = functionName || '(anonymous)';
  if (url === '') return name;
  const place = url.replace(/^.*\/node_modules\//, '').replace(/^file:\/\/.*?\/(?=services\/|edge\/|gen\/)/, '');
  return `${name} ${place}:${lineNumber + 1}`;
}

function originOf({ functionName, url }: CallFrame): Frame['origin'] {
  if (functionName === '(garbage collector)') return 'collector';
  if (url === '') return 'native';
  if (url.startsWith('node:')) return 'node';
  return url.includes('/node_modules/') ? 'packages' : 'gateway';
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
