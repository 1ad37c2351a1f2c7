import type { IncomingHttpHeaders } from 'node:http';
import { startStopwatch } from '../stopwatch.ts';
import type { Behaviour } from './behaviour.ts';
import type { FormPart, SimulatedOperation } from './request.ts';

/** What an upstream reports; the shapes differ by operation. */
export type ReportedUsage = Record<string, unknown>;

/** What really happened to one request, as only the upstream can know. */
export type TruthEntry = {
  /** The order of arrival, from 1. */
  number: number;
  operation: SimulatedOperation;
  method: string;
  /** Including the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The JSON body; null for other bodies. */
  json: Record<string, unknown> | null;
  /** The parts of a multipart body. */
  form: FormPart[];
  model: string;
  /** Whether the answer is a stream. */
  stream: boolean;
  behaviour: Behaviour;
  /** The id in the answer. */
  responseId: string;
  status: number | null;
  promptTokens: number;
  /** Output tokens generated so far, whether or not anyone was told. */
  generatedTokens: number;
  /** Chunks handed to the connection so far. */
  chunks: number;
  /**
   * Whether those were all of a stream. A client that reads its last event need not wait for the connection's end, and may be seen to
   * leave.
   */
  isWhole: boolean;
  /** The text generated so far. */
  text: string;
  /** The usage in the answer, as last sent; null if none was. */
  reportedUsage: ReportedUsage | null;
  /** `faulted`: the simulator broke it off as told. `client-left`: the connection closed before the answer's end. */
  outcome: 'running' | 'completed' | 'faulted' | 'client-left';
  /** Monotonic milliseconds (performance.now). */
  receivedAtMs: number;
  endedAtMs: number | null;
};

export type TruthLog = {
  readonly entries: readonly TruthEntry[];
  add(entry: TruthEntry): void;
  /** Checks again what is waited for; call it after each change of an entry. */
  changed(): void;
  /** The first entry that satisfies `predicate`, once there is one; `timeoutMs` (15 s) is measured by a stopwatch. */
  waitFor(
    predicate: (entry: TruthEntry) => boolean,
    options?: { timeoutMs?: number; description?: string },
  ): Promise<TruthEntry>;
  clear(): void;
};

/** The simulator's memory of what it received and generated. */
export function createTruthLog(): TruthLog {
  let entries: TruthEntry[] = [];
  const waiting = new Set<() => void>();
  return {
    get entries() {
      return entries;
    },
    add(entry) {
      entries.push(entry);
      this.changed();
    },
    changed() {
      for (const look of waiting) look();
    },
    waitFor(predicate, { timeoutMs = 15_000, description = 'a request that satisfies the predicate' } = {}) {
      const found = entries.find(predicate);
      if (found !== undefined) return Promise.resolve(found);
      return new Promise((resolve, reject) => {
        const watch = startStopwatch();
        const finish = () => {
          watch[Symbol.dispose]();
          clearInterval(timer);
          waiting.delete(look);
        };
        const look = () => {
          const entry = entries.find(predicate);
          if (entry === undefined) return;
          finish();
          resolve(entry);
        };
        const timer = setInterval(() => {
          if (watch.ms < timeoutMs) return;
          finish();
          const seen = entries.map(
            (one) => `${one.number} ${one.operation} ${one.outcome} ${one.generatedTokens} tokens`,
          );
          reject(
            new Error(`waited ${timeoutMs} ms for ${description}; the simulator saw: ${seen.join('; ') || 'nothing'}`),
          );
        }, 10);
        waiting.add(look);
      });
    },
    clear() {
      entries = [];
    },
  };
}
