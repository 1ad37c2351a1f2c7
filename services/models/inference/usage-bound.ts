import { transcriptTokensMax, windowMs } from '../audio/audio-duration.ts';
import type { ReportedUsage } from '../bytes/reported-usage.ts';
import type { Measures } from '../domain/price.ts';
import type { DisbelievedReport } from '../metering/metered-call.ts';

/**
 * The measures in a reported usage; without audio if it states no length. A total reported alone counts as input: this is how some
 * upstreams report an embedding's tokens.
 */
export const measuresOf = (usage: ReportedUsage): Partial<Measures> => ({
  inputTokens: usage.inputTokens ?? (usage.outputTokens === null ? usage.totalTokens : 0),
  cachedInputTokens: usage.cachedInputTokens,
  outputTokens: usage.outputTokens ?? 0,
  ...(usage.audioMs === null ? undefined : { audioMs: usage.audioMs }),
});

/** The most that a transcript takes in for each window of audio. */
const windowInputTokens = 1_200;

/** What hearing and writing down audio uses. */
export type TranscriptUse = Pick<Measures, 'inputTokens' | 'outputTokens' | 'audioMs'>;

/**
 * The most that a transcript of this much audio can use. `promptBytes` is how much was sent beside the audio; no token is shorter than a
 * byte. Lengths may differ by a tenth, and upstreams round up to seconds.
 */
export const transcriptUseMax = (audioMs: number, promptBytes: number): TranscriptUse => ({
  inputTokens: Math.ceil(audioMs / windowMs) * windowInputTokens + promptBytes,
  outputTokens: transcriptTokensMax(audioMs),
  audioMs: Math.ceil((audioMs * 1.1) / 1000) * 1000,
});

/** Whether a transcript of this much audio can have used what is reported. */
export function canTranscriptUse(used: Partial<Measures>, audioMs: number, promptBytes: number): boolean {
  if (audioMs === 0) return Object.values(used).every((measure) => measure === 0);
  const most = transcriptUseMax(audioMs, promptBytes);
  return (['inputTokens', 'outputTokens', 'audioMs'] as const).every(
    (measure) => (used[measure] ?? 0) <= most[measure],
  );
}

/** The most that one call can be charged on its upstreams' word, and what they reported beyond it. */
export class UsageBound {
  /** Impossible reports, from any deployment of the call. */
  readonly disbelieved: DisbelievedReport[] = [];
  /** The deployment whose reports are being read. */
  deployment = '';
  readonly #max: Measures;
  readonly #outputTokensAllowed: number;

  /** `outputTokensAllowed`: by the call itself; null if it sets no limit. */
  constructor(max: Measures, outputTokensAllowed: number | null) {
    this.#max = max;
    this.#outputTokensAllowed = outputTokensAllowed ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the call can have used this much; the length of audio is not checked. */
  allows(used: Partial<Measures>): boolean {
    const isPossible = (['inputTokens', 'outputTokens', 'images'] as const).every(
      (measure) => (used[measure] ?? 0) <= this.#max[measure],
    );
    if (!isPossible) this.disbelieve(used);
    return isPossible;
  }

  /** What was reported; null when that is nothing, or more than the call can have used: then the gateway counts itself. */
  measured(usage: ReportedUsage | null): Partial<Measures> | null {
    const used = usage === null ? null : measuresOf(usage);
    return used !== null && this.allows(used) ? used : null;
  }

  /**
   * As many output tokens as the gateway counted, in the place of a report: by its vocabulary a text may have more than the call allowed. But an
   * upstream may not have heeded that: what it reported itself, or sent in `deltas` of at least a token each, it may have written.
   */
  counted(outputTokens: number, deltas = 0): number {
    const { deployment, reported } = this.disbelieved.at(-1) ?? {};
    const claimed = deployment === this.deployment ? (reported?.outputTokens ?? 0) : 0;
    return Math.min(outputTokens, Math.max(this.#outputTokensAllowed, claimed, deltas));
  }

  /** The unchanged report, by the same rule. */
  believed(usage: ReportedUsage | null): ReportedUsage | null {
    return this.measured(usage) === null ? null : usage;
  }

  disbelieve(used: Partial<Measures>): void {
    const last = this.disbelieved.at(-1);
    if (last?.deployment === this.deployment) Object.assign(last.reported, used);
    else this.disbelieved.push({ deployment: this.deployment, reported: { ...used } });
  }
}
