import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { v8Options } from './v8-options.ts';
import { waitFor } from './wait-for.ts';

/** The folder of package.json. */
const root = fileURLToPath(new URL('../../', import.meta.url));

/** A gateway's first start, with migrations, takes some seconds; on a busy machine several times as long. */
const lineTimeoutMs = 60_000;

type ProcessOptions = {
  /** The script, from the repository's root: `services/cmd/all.ts`. */
  script: string;
  /** What runs it, instead of Node. */
  command?: string[];
  args?: string[];
  /** Added to the test's own environment; undefined removes a variable. */
  env?: Record<string, string | undefined>;
  /** Makes it the leader of a process group of its own, like what a terminal starts; the group is `-pid`. */
  detached?: boolean;
};

export type StartedProcess = AsyncDisposable & {
  readonly pid: number;
  /** Standard output and error so far. */
  readonly output: string;
  /** Null while it runs. */
  readonly exit: { code: number | null; signal: NodeJS.Signals | null } | null;
  /** Waits for a line that matches; fails at once, with the output, if the process ends first. */
  waitForLine(pattern: RegExp): Promise<RegExpMatchArray>;
  /** Waits until the port in the pattern's first group, e.g. /port (\d+)/, was printed. */
  waitForPort(pattern: RegExp): Promise<number>;
  signal(signal: NodeJS.Signals): void;
  /** Waits for its end. */
  exited(timeoutMs?: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** kill -9, and waits for its end. Does nothing if it has ended. */
  kill(): Promise<void>;
};

/**
 * Starts a script in a separate Node process. `await using` kills it at the end of the scope; if the test process ends without that, it is
 * killed then.
 */
export function startProcess({
  script,
  command = [process.execPath, ...v8Options],
  args = [],
  env = {},
  detached = false,
}: ProcessOptions): StartedProcess {
  const [file, ...options] = command;
  const child: ChildProcess = spawn(file!, [...options, script, ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached,
  });
  let output = '';
  let exit: StartedProcess['exit'] = null;
  const collect = (text: string) => {
    output += text;
  };
  child.stdout!.setEncoding('utf8').on('data', collect);
  child.stderr!.setEncoding('utf8').on('data', collect);
  const killAtEnd = () => void child.kill('SIGKILL');
  process.once('exit', killAtEnd);
  // `close`, not `exit`: only then is the output complete.
  const closed = once(child, 'close').then(([code, signal]) => {
    exit = { code, signal };
    process.off('exit', killAtEnd);
    return exit;
  });
  // A script that cannot be spawned has no pid; waiting for it then reports why.
  child.on('error', (error) => collect(`\n${error}`));

  const failed = (what: string) => new Error(`${script} (pid ${child.pid}) ${what}. Its output:\n${output}`);

  async function waitForLine(pattern: RegExp): Promise<RegExpMatchArray> {
    const search = () => {
      for (const line of output.split('\n')) {
        const match = line.match(pattern);
        if (match !== null) return match;
      }
      return exit !== null;
    };
    const found = await waitFor(search, { description: `${pattern}`, timeoutMs: lineTimeoutMs }).catch(() => {
      throw failed(`printed nothing like ${pattern} within ${lineTimeoutMs} ms`);
    });
    if (found === true) throw failed(`ended (${JSON.stringify(exit)}) before it printed ${pattern}`);
    return found;
  }

  async function exited(timeoutMs = 60_000): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(failed(`still runs after ${timeoutMs} ms`)), timeoutMs);
    });
    try {
      return await Promise.race([closed, tooLate]);
    } finally {
      clearTimeout(timer);
    }
  }

  const kill = async () => {
    child.kill('SIGKILL');
    await closed;
  };

  return {
    get pid() {
      return child.pid!;
    },
    get output() {
      return output;
    },
    get exit() {
      return exit;
    },
    waitForLine,
    waitForPort: async (pattern) => Number((await waitForLine(pattern))[1]),
    signal: (signal) => void child.kill(signal),
    exited,
    kill,
    [Symbol.asyncDispose]: kill,
  };
}
