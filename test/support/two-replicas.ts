import { type Answer, owner, startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';

type Credentials = { email: string; password: string };

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
   * A REST call; the replicas take turns. Each call comes from a new address, so that nobody who signs in has to wait because others
   * failed.
   */
  call(method: string, path: string, token = '', body?: object, headers?: Record<string, string>): Promise<Answer> {
    this.#calls += 1;
    const from = `10.${this.#calls >> 16}.${(this.#calls >> 8) & 255}.${this.#calls & 255}`;
    return this.both[this.#calls % 2]!.call(method, path, token, body, { ...headers, 'x-forwarded-for': from });
  }

  /** Creates another organization, and its owner, who can sign in. */
  async makeOrganization(operator: string, name: string): Promise<{ id: string; owner: Credentials }> {
    const email = `${name.toLowerCase()}@example.com`;
    const made = await this.call('POST', '/api/v1/admin/organizations', operator, { name, owner_email: email });
    const token = mailedToken(await this.call('GET', `/api/v1/admin/mail?search=${email}`, operator));
    const { password } = owner;
    const person = { token, password, first_name: 'First', last_name: 'Last' };
    const accepted = await this.call('POST', '/api/v1/auth/accept-invite', '', person);
    if (accepted.status !== 201) throw new Error(`accepting an invitation answered ${accepted.text}`);
    return { id: made.json.organization.id, owner: { email, password } };
  }
}

export async function startTwoReplicas(given: TestGatewayOptions = {}): Promise<TwoReplicas> {
  const options = { ...given, env: { TRUSTED_PROXIES: '127.0.0.1', ...given.env } };
  const first = await startTestGateway(options);
  return new TwoReplicas(first, await startTestGateway({ ...options, databaseUrl: first.env.databaseUrl! }));
}

/** The one-time token in the latest mail that has one, from an answer of the outbox. */
export function mailedToken(outbox: Answer): string {
  const texts: (string | null)[] = outbox.json.data.map(({ text }: { text: string | null }) => text);
  return /[?&]token=([\w-]+)/.exec(texts.find((text) => text?.includes('token='))!)![1]!;
}
