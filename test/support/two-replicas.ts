import type { Clock } from '#shared/clock.ts';
import { type Answer, startTestGateway, type TestGateway } from './gateway.ts';

/** Two replicas of one gateway, on one database. */
export class TwoReplicas {
  readonly both: readonly [TestGateway, TestGateway];
  #calls = 0;

  constructor(first: TestGateway, second: TestGateway) {
    this.both = [first, second];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of this.both.toReversed()) await replica[Symbol.asyncDispose]();
  }

  /**
   * A REST call; they take turns. Each comes from an address of its own, so that nobody who signs in has to wait for others who failed.
   */
  call(method: string, path: string, token = '', body?: object): Promise<Answer> {
    this.#calls += 1;
    const from = `10.${this.#calls >> 16}.${(this.#calls >> 8) & 255}.${this.#calls & 255}`;
    return this.both[this.#calls % 2]!.call(method, path, token, body, { 'x-forwarded-for': from });
  }
}

export async function startTwoReplicas(clock?: Clock): Promise<TwoReplicas> {
  const options = { env: { TRUSTED_PROXIES: '127.0.0.1' }, ...(clock && { clock }) };
  const first = await startTestGateway(options);
  return new TwoReplicas(first, await startTestGateway({ ...options, databaseUrl: first.env.databaseUrl! }));
}

/** The one-time token in the latest mail that has one, of an answer of the outbox. */
export function mailedToken(outbox: Answer): string {
  const texts: (string | null)[] = outbox.json.data.map(({ text }: { text: string | null }) => text);
  return /[?&]token=([\w-]+)/.exec(texts.find((text) => text?.includes('token='))!)![1]!;
}
