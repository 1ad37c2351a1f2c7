import type { Measures } from '../domain/price.ts';
import type { MeteredItem } from './metered-item.ts';
import type { SessionConfig } from './session-config.ts';

/** What an utterance became. */
export type Transcript = {
  text: string;
  /** As the client is told it. */
  usage: object;
  /** What the upstream counted; null: it did not. */
  reported: Partial<Measures> | null;
};

/** An utterance that is being heard; ended by exactly one of `finish` and `abort`. */
export type Utterance = {
  /** Takes further samples, at the session's rate. */
  hear(samples: Int16Array): void;
  /** How much of what it has heard is in memory, in bytes: what its upstream has taken is not. */
  readonly heldBytes: number;
  /** The utterance is over: resolves with the transcript, or rejects with a GatewayError. */
  finish(): Promise<Transcript>;
  abort(): void;
};

export type UtteranceOptions = {
  config: SessionConfig;
  item: MeteredItem;
  /** Takes a piece of the transcript; the client gets it before the next one. False: too many wait already, and this one was not taken. */
  onDelta(text: string): boolean;
};

/** Turns utterances into text. */
export type Transcriber = { begin(options: UtteranceOptions): Utterance };

/** The usage of a transcript whose upstream reports none. */
export const durationUsage = (audioMs: number): object => ({ type: 'duration', seconds: audioMs / 1000 });
