import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEnv } from '#shared/env.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { openTalk, UpgradeRefused } from '../support/realtime-client.ts';
import { waitFor } from '../support/wait-for.ts';

/* X-Forwarded-For determines who the client is only where TRUSTED_PROXIES trusts the peer to say so. */

const allowed = '203.0.113.7';
const other = '198.51.100.1';
const start = async (env: Record<string, string>) => {
  const gateway = await startTestGateway({ env });
  const session = await gateway.login();
  const { key } = await gateway.createKey(session, { ip_allowlist: [allowed] });
  return { gateway, session, key };
};

/** What GET /models answers a request with these headers. */
async function decision(gateway: TestGateway, key: string, ...headers: [string, string][]): Promise<string> {
  const answer = await fetch(`${gateway.url}/v1/models`, {
    headers: [['authorization', `Bearer ${key}`], ...headers],
  });
  const { error } = (await answer.json()) as { error?: { code: string } };
  return answer.ok ? 'allowed' : error!.code;
}

describe('behind a trusted proxy', () => {
  let behind: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    behind = await start({ TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8' });
  });
  afterAll(async () => behind?.gateway[Symbol.asyncDispose]());

  test.each([
    ['the client itself', [allowed], 'allowed'],
    ['another client', [other], 'ip_not_allowed'],
    ['what the client itself wrote before the proxy', [`${allowed}, ${other}`], 'ip_not_allowed'],
    ['whatever the client wrote', [`${other}, ${allowed}`], 'allowed'],
    ['a further trusted hop', [`${allowed}, 10.1.2.3`], 'allowed'],
    ['a further trusted hop with a port', [`${allowed}, 10.1.2.3:50124`], 'allowed'],
    ['a further trusted hop as IPv6 has it, with a port', [`${allowed}:50123, [::ffff:10.1.2.3]:50124`], 'allowed'],
    ['a hop that is none of the trusted ones, whatever its port', [`${allowed}, 11.1.2.3:10`], 'ip_not_allowed'],
    ['an untrusted hop among trusted ones', [`${allowed}, ${other}, 10.1.2.3`], 'ip_not_allowed'],
    ['an IPv4 client as IPv6 has it', [`::ffff:${allowed}`], 'allowed'],
    ['the port that some proxies add', [`${allowed}:50123`], 'allowed'],
    ['an IPv6 address with a port', [`[::ffff:${allowed}]:50123`], 'allowed'],
    ['the port of another client', [`${other}:50123`], 'ip_not_allowed'],
    ['no port', [`${allowed}:http`], 'ip_not_allowed'],
    ['two headers, the second by the proxy', [allowed, other], 'ip_not_allowed'],
    ['no address', ['unknown'], 'ip_not_allowed'],
    ['an address that can be read in two ways', ['203.0.113.07'], 'ip_not_allowed'],
    ['trusted hops alone', ['10.1.2.3'], 'ip_not_allowed'],
    ['nothing', [], 'ip_not_allowed'],
  ])('%s', async (_what, values, expected) => {
    const headers = values.map((value): [string, string] => ['x-forwarded-for', value]);
    expect(await decision(behind.gateway, behind.key, ...headers)).toBe(expected);
    const upgrade = await openTalk(behind.gateway.url, {
      key: behind.key,
      headers: values.length === 0 ? {} : { 'x-forwarded-for': values.join(', ') },
    }).catch((error) => error);
    if (expected === 'allowed') await upgrade[Symbol.asyncDispose]();
    else expect(upgrade).toMatchObject({ status: 403, body: { error: { code: expected } } });
    expect(upgrade instanceof UpgradeRefused).toBe(expected !== 'allowed');
  });

  test.each([
    [`::ffff:${allowed}`, allowed],
    [`${allowed}:50123`, allowed],
    ['[2001:db8::1]:50123', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
  ])('%s is one client with %s, for audit and for the limits of an address', async (written, ip) => {
    const { gateway, session } = behind;
    const headers = {
      authorization: `Bearer ${session}`,
      'content-type': 'application/json',
      'x-forwarded-for': written,
    };
    const body = JSON.stringify({ name: 'one client' });
    const made = await fetch(`${gateway.url}/api/v1/api-keys`, { method: 'POST', headers, body });
    const { id } = (await made.json()) as { id: string };
    type AuditEvent = { actor: { ip: string }; target: { id: string } };
    const told = async () => {
      const answer = await fetch(`${gateway.url}/api/v1/audit-events?type=api_key_created`, { headers });
      return ((await answer.json()) as { data: AuditEvent[] }).data.find(({ target }) => target.id === id);
    };
    const event = await waitFor(told, { description: 'the audit event' });
    expect(event.actor.ip).toBe(ip);
  });

  test.each(['forwarded', 'x-real-ip', 'x-client-ip', 'cf-connecting-ip', 'true-client-ip'])(
    'another header says nothing: %s',
    async (name) => {
      const value = name === 'forwarded' ? `for=${allowed}` : allowed;
      expect(await decision(behind.gateway, behind.key, [name, value])).toBe('ip_not_allowed');
    },
  );
});

describe('without a trusted proxy', () => {
  test('the peer is the client, whatever it claims', async () => {
    const open = await start({});
    await using gateway = open.gateway;
    expect(await decision(gateway, open.key, ['x-forwarded-for', allowed])).toBe('ip_not_allowed');
    const { key } = await gateway.createKey(open.session, { ip_allowlist: ['127.0.0.1'] });
    expect(await decision(gateway, key, ['x-forwarded-for', allowed])).toBe('allowed');
  });
});

test.each(['proxy.example', '10.0.0.0/33', '127.0.0.1,,x', '010.0.0.1'])(
  'TRUSTED_PROXIES=%s stops the start by its name',
  (text) => {
    const secret = 'a secret for tests that is long enough';
    const read = () => readEnv({ KEY_PEPPER: secret, SERVICE_SECRET: secret, TRUSTED_PROXIES: text });
    expect(read).toThrow('TRUSTED_PROXIES');
  },
);
