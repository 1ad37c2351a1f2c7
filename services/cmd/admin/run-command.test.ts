import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { createServer } from 'node:tls';
import { create } from '@bufbuild/protobuf';
import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { anonymous, ownerEmail, ownerPassword, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { selfSignedCertificate } from '../../../test/support/certificate.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { as, sessionOf, startTestKeys, type TestKeys } from '../../../test/support/keys.ts';
import { asTableOwner, atOnce, operatorOf } from '../../../test/support/people.ts';
import { testTokens } from '../../../test/support/rpc-carriers.ts';
import type { AdminContext } from './command.ts';
import { commands } from './commands.ts';
import { runCommand } from './run-command.ts';

let auth: TestAuth;
let keys: TestKeys;
beforeAll(async () => {
  auth = await startTestAuth();
  keys = await startTestKeys(auth.database.url);
});
afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await auth.close();
});

const operator: Caller = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
const context = (): AdminContext => ({
  auth: auth.auth,
  keys: keys.keys,
  // Its commands are tested with the whole gateway.
  models: {} as never,
  // Organizations are listed without it.
  billing: { listAccounts: () => Promise.reject(new Error('Billing is away')) } as never,
  jobs: {} as never,
  usage: {} as never,
  services: ['http://127.0.0.1:8081'],
  asOperator: { contextValues: callerContext(operator) },
  bootstrap: async () => ({ created: true, email: 'first@example.com', password: 'made up' }),
});
const admin = (...argv: string[]) => runCommand(commands, argv, context);
const json = async (...argv: string[]) => {
  const { exitCode, stdout, stderr } = await admin(...argv, '--json');
  expect([exitCode, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
};

test('an organization is created, suspended and restored from a shell', async () => {
  const made = await json('organizations', 'create', 'founder@example.com', '--name', 'Shell made');
  expect(await json('organizations', 'list', '--search', 'shell')).toMatchObject([
    { name: 'Shell made', status: 'active', account: null },
  ]);
  expect(await json('organizations', 'suspend', made.organization, '--reason', 'unpaid')).toMatchObject({
    status: 'suspended',
    reason: 'unpaid',
  });
  expect(await json('organizations', 'restore', made.organization)).toMatchObject({ status: 'active' });
});

test('an operator is told which of several services is unreachable, and not to start one that answers', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const away = createRpcClientTransport({ url, tokens: testTokens('admin') });
  const services = ['http://127.0.0.1:8081', url];
  const withAuth = async (users: AdminContext['auth']) =>
    (await runCommand(commands, ['users', 'list'], () => ({ ...context(), services, auth: users }))).stderr;
  const outOfReach = await withAuth(createRpcClient(AuthService, away));
  away.close();
  expect(outOfReach).toContain(
    `connect ECONNREFUSED ${url.slice('http://'.length)}). It is expected at ${services.join(', ')}: start it`,
  );
  const adminListUsers = () => Promise.reject(gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded.'));
  expect(await withAuth({ ...auth.auth, adminListUsers })).toBe('The gateway is overloaded.\n');
});

test('an operator is told which variable is missing to reach a gateway that speaks TLS', async () => {
  const server = createServer(selfSignedCertificate()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const answerAt = async (url: string) => {
    const transport = createRpcClientTransport({ url, tokens: testTokens('admin') });
    const users = createRpcClient(AuthService, transport);
    const { stderr } = await runCommand(commands, ['users', 'list'], () => ({ ...context(), auth: users }));
    transport.close();
    return stderr;
  };
  expect(await answerAt(`http://127.0.0.1:${port}`)).toContain(', or RPC_TLS_CERT and RPC_TLS_KEY to its own: it may');
  expect(await answerAt(`https://127.0.0.1:${port}`)).toContain(
    ', or NODE_EXTRA_CA_CERTS to a file with the authority',
  );
  server.close();
});

test('an organization is renamed, given a quota, and its invitation delivered from a shell', async () => {
  const made = await json('organizations', 'create', 'carried@example.com', '--name', 'To be renamed');
  const id = made.organization;
  expect(await json('organizations', 'rename', id, 'Renamed')).toMatchObject({ id, name: 'Renamed' });
  expect(await json('organizations', 'key-quota', id)).toMatchObject({ keys_per_user: 10 });
  expect(await json('organizations', 'key-quota', id, '3')).toMatchObject({ keys_per_user: 3 });
  expect(await json('organizations', 'key-quota', id, 'unlimited')).toMatchObject({ keys_per_user: 'unlimited' });
  expect(await json('organizations', 'key-quota', id, 'default')).toMatchObject({ keys_per_user: 10 });
  expect((await admin('organizations', 'key-quota', id, 'many')).exitCode).toBe(2);
  const [mail] = await json('mail', 'list', '--search', 'carried@example.com');
  expect(mail).toMatchObject({ kind: 'invitation', status: 'queued' });
  expect(mail.text).toContain('?token=');
  // A terminal would take what follows a link for a part of it.
  const link = /\S+\?token=\S+/.exec(mail.text)![0];
  expect((await admin('mail', 'list', '--search', mail.to)).stdout).toContain(` ${link} `);
});

test('a key is found and revoked from a shell', async () => {
  const owner = sessionOf({ ...auth.owner, role: Role.OWNER });
  const { key } = await keys.keys.createKey({ name: 'leaked' }, as(owner));
  const [listed] = await json('keys', 'list', '--search', 'leaked');
  const whose = { organization: auth.owner.tenantId, user: auth.owner.userId };
  expect(listed).toMatchObject({ id: key!.id, ...whose, status: 'active', preview: key!.keyPreview });
  expect(await json('keys', 'revoke', key!.id)).toMatchObject({ status: 'revoked' });
});

test('a page of a list is not taken for the whole list', async () => {
  const owner = sessionOf({ ...auth.owner, role: Role.OWNER });
  for (const name of ['paged 1', 'paged 2', 'paged 3']) await keys.keys.createKey({ name }, as(owner));
  const list = (...options: string[]) => admin('keys', 'list', '--search', 'paged', '--json', ...options);
  const first = await list('--limit', '2');
  expect(first).toMatchObject({ exitCode: 0, stderr: 'Page 1 of 2, 3 in all; --page 2 shows the next.\n' });
  expect(JSON.parse(first.stdout)).toHaveLength(2);
  expect((await list('--limit', '2', '--page', '2')).stderr).toBe('Page 2 of 2, 3 in all.\n');
  expect((await list()).stderr).toBe('');
});

test("a key's rate limits are set, shown and reset to its organization's from a shell", async () => {
  const owner = sessionOf({ ...auth.owner, role: Role.OWNER });
  const { key } = await keys.keys.createKey({ name: 'limited' }, as(owner));
  expect(await json('keys', 'limits', key!.id, '--requests', '30', '--concurrent', '2')).toMatchObject({
    requests_per_minute: 30,
    tokens_per_minute: 0,
    concurrent_requests: 2,
  });
  for (const wrong of ['0', '-1', '1.5', 'many', '99999999']) {
    const { exitCode, stderr } = await admin('keys', 'limits', key!.id, `--requests=${wrong}`);
    expect([exitCode, stderr.includes('--requests must be a whole number')], wrong).toEqual([2, true]);
  }
  const limits = { requests_per_minute: 30, tokens_per_minute: 9, concurrent_requests: 2 };
  expect(await json('keys', 'limits', key!.id, '--tokens', '9')).toMatchObject(limits);
  // Reading changes nothing.
  for (let look = 0; look < 2; look++) expect(await json('keys', 'limits', key!.id)).toMatchObject(limits);
  expect(await json('keys', 'limits', key!.id, '--organization-limits')).toMatchObject({
    requests_per_minute: 0,
    tokens_per_minute: 0,
    concurrent_requests: 0,
  });
  const both = await admin('keys', 'limits', key!.id, '--organization-limits', '--requests', '5');
  expect([both.exitCode, both.stdout]).toEqual([2, '']);
  expect(both.stderr).toContain('--organization-limits takes all limits back: leave out the others');
  expect((await admin('keys', 'limits', auth.owner.userId)).exitCode).not.toBe(0);
});

test("of two operators who set different limits of a key at once, neither loses the other's", async () => {
  const owner = sessionOf({ ...auth.owner, role: Role.OWNER });
  const { key } = await keys.keys.createKey({ name: 'limited by two' }, as(owner));
  await json('keys', 'limits', key!.id, '--concurrent', '2');
  await atOnce(
    auth,
    [
      () => json('keys', 'limits', key!.id, '--requests', '30'),
      () => json('keys', 'limits', key!.id, '--tokens', '900'),
    ],
    `select from keys.keys where id = '${key!.id}' for update`,
  );
  expect(await json('keys', 'limits', key!.id)).toMatchObject({
    requests_per_minute: 30,
    tokens_per_minute: 900,
    concurrent_requests: 2,
  });
});

test('a type of audit events that does not exist is refused, as it would find none', async () => {
  expect((await admin('audit', 'list', '--type', 'session_started')).exitCode).toBe(0);
  const { exitCode, stdout, stderr } = await admin('audit', 'list', '--type', 'session_start');
  expect([exitCode, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/--type must be one of .*session_started/);
});

test('a compromised signing key is replaced within one call, though there are so many sessions that ending them takes longer than other calls may', async () => {
  const { accessToken } = (await auth.auth.login({ email: ownerEmail, password: ownerPassword }, anonymous())).tokens!;
  await asTableOwner(
    auth,
    `create function take_time() returns trigger language plpgsql as $$ begin perform pg_sleep(10.5); return null; end $$;
     create trigger take_time before update on sessions execute function take_time()`,
  );
  const keysLeft = await json('signing-keys', 'rotate', '--compromised');
  await asTableOwner(auth, 'drop function take_time cascade');
  expect(keysLeft).toMatchObject([{ status: 'active' }]);
  expect(keysLeft[0].kid).not.toBe(decodeProtectedHeader(accessToken).kid);
}, 30_000);

test('audit events are narrowed as in the portal, and shown with what changed and where it was done from', async () => {
  const { tenantId } = auth.owner;
  const caller = create(CallerSchema, { ...sessionOf({ ...auth.owner, role: Role.OWNER }), ip: '198.51.100.7' });
  await auth.auth.updateOrganization({ name: 'Renamed once' }, as(caller));
  const ofOrganization = ['audit', 'list', '--organization', tenantId];
  const renamed = await json(...ofOrganization, '--type', 'organization_updated');
  expect(renamed).toMatchObject([
    {
      tenant_id: tenantId,
      actor: { type: 'user', id: auth.owner.userId, ip: '198.51.100.7' },
      target: { type: 'organization', id: tenantId },
      changes: { after: { name: 'Renamed once' } },
      request_id: 'req_test',
    },
  ]);
  const [{ sequence, occurred_at: occurredAt }] = renamed;
  expect(await json(...ofOrganization, '--sequence', `${sequence}`)).toEqual(renamed);
  const narrowed: [string, string, boolean][] = [
    ['--actor', auth.owner.userId, true],
    ['--actor', uuidv7(), false],
    ['--target', tenantId, true],
    ['--target', uuidv7(), false],
    ['--from', occurredAt, true],
    ['--before', occurredAt, false],
  ];
  for (const [option, value, isFound] of narrowed) {
    const found = await json(...ofOrganization, '--type', 'organization_updated', option, value);
    expect([option, found]).toEqual([option, isFound ? renamed : []]);
  }
  const table = await admin(...ofOrganization, '--type', 'organization_updated');
  expect(table.stdout).toMatch(/^OCCURRED_AT +TENANT_ID +SEQUENCE +TYPE +ACTOR.ID +TARGET.TYPE +TARGET.ID\n/);
});

test('a broken audit chain fails the command, a whole one does not', async () => {
  const { tenantId } = auth.owner;
  expect(await json('audit', 'verify', '--organization', tenantId)).toMatchObject({ chain: 'whole' });
  await asTableOwner(auth, `update audit_events set type = 'nothing_happened' where tenant_id = $1 and sequence = 1`, [
    tenantId,
  ]);
  const broken = [{ chain: 'broken', organization: tenantId, first_broken_sequence: 1 }];
  // Without an organization, all chains are meant.
  for (const which of [['--organization', tenantId], []]) {
    const { exitCode, stdout } = await admin('audit', 'verify', ...which, '--json');
    expect([exitCode, JSON.parse(stdout)]).toEqual([1, broken]);
  }
});

test.each(['audit', 'ledger'])(
  '%s verify fails for an organization that does not exist, instead of finding nothing wrong',
  async (what) => {
    const { exitCode, stdout, stderr } = await admin(what, 'verify', '--organization', uuidv7());
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toContain('No such organization');
  },
);

test('a user is made an operator from a shell', async () => {
  const [owner] = await json('users', 'list');
  expect(owner).toMatchObject({ id: auth.owner.userId, operator: true, role: 'owner' });
  const refused = await admin('users', 'demote', auth.owner.userId);
  expect([refused.exitCode, refused.stdout]).toEqual([1, '']);
  expect(refused.stderr).toContain('last platform operator');
});

test('a user is given another address from a shell, and it is said what is wrong with one', async () => {
  const { userId } = auth.owner;
  const [{ email }] = await json('users', 'list');
  const malformed = await admin('users', 'set-email', userId, 'nowhere');
  expect([malformed.exitCode, malformed.stdout]).toEqual([1, '']);
  expect(malformed.stderr).toContain('valid email address');
  expect(await json('users', 'set-email', userId, 'Owner@New.example')).toMatchObject({ email: 'owner@new.example' });
  const { mails } = await auth.auth.listMail({ kind: 'email_changed' }, operatorOf(auth));
  expect(mails.map(({ mail }) => mail!.toEmail).toSorted()).toEqual([email, 'owner@new.example'].toSorted());
  await json('users', 'set-email', userId, email);
});

test.each([
  [[], 'organizations suspend <id>'],
  [['help'], 'organizations suspend <id>'],
  [['--help'], 'organizations suspend <id>'],
  [['help', 'organizations'], '[--json]\n\n  organizations list'],
  [['--help', 'organizations'], '[--json]\n\n  organizations list'],
  [['organizations', 'suspend', '--help'], 'Usage: npm run admin -- organizations suspend <id> [--reason text]'],
])('%j prints help, and is no mistake', async (argv, text) => {
  const outcome = await admin(...argv);
  expect([outcome.exitCode, outcome.stderr]).toEqual([0, '']);
  expect(outcome.stdout).toContain(text);
});

test('an operator who interrupts a movement of money is told how to repeat it without moving it twice', async () => {
  const interruption = new AbortController();
  const grantCredit = () => {
    interruption.abort();
    return new Promise(() => {});
  };
  const argv = ['credits', 'grant', auth.owner.tenantId, '1'];
  const hanging = () => ({ ...context(), billing: { grantCredit } as never });
  const { exitCode, stdout, stderr } = await runCommand(commands, argv, hanging, { interrupted: interruption.signal });
  expect([exitCode, stdout]).toEqual([130, '']);
  expect(stderr).toMatch(/^Interrupted\.\nTo be sure that it is done once, repeat it with --idempotency-key \S+\.\n$/);
});

test('the password that a bootstrap generates is shown', async () => {
  expect(await json('bootstrap')).toEqual({ operator: 'first@example.com', created: true, password: 'made up' });
});

test.each([
  [
    ['organizations', 'explode'],
    'Unknown command: organizations explode\nUsage: npm run admin -- <command> [--json]\n\n  organizations list',
  ],
  [
    ['organisations', 'list'],
    'Unknown command: organisations list\nUsage: npm run admin -- <command> [--json]\n\n`npm run admin -- help` lists the commands.\n',
  ],
  [['help', 'invoice'], 'Unknown command: help invoice\nUsage: npm run admin -- <command> [--json]\n'],
  [['organizations', 'suspend'], "organization's id is missing"],
  [['models', 'import', 'none.yaml'], `${resolve('none.yaml')} cannot be read: ENOENT`],
  [['organizations', 'list', '--unknown'], 'Unknown option'],
  [['organizations', 'list', '--limit', 'many'], '--limit must be a whole number'],
  [['organizations', 'list', '--status', 'constructor'], '--status must be one of active, suspended'],
  [['organizations', 'rename', 'id', 'New', 'Name'], '`Name` is one argument too many'],
  [['audit', 'verify', 'an-organization'], '`an-organization` is one argument too many'],
  [['organizations', 'key-quota', 'id', '3', '4'], '`4` is one argument too many'],
  [['audit', 'verify', '--organization', ''], '--organization is empty'],
  [['organizations', 'list', '--status', 'active', '--status=suspended'], '--status is given twice'],
  [['transactions', 'list', 'id', '--start-date', '31.1.2030'], '--start-date must be a day like 2030-01-31'],
  [['retirements', 'announce', 'acme/large', '--note', 'No longer needed.', '--date='], '--date is empty'],
])('%j is told what is wrong with it', async (argv, text) => {
  const outcome = await admin(...argv);
  expect([outcome.exitCode, outcome.stdout]).toEqual([2, '']);
  expect(outcome.stderr).toContain(text);
  expect(outcome.stderr).toContain('Usage: npm run admin --');
});

test('an option that npm has taken for one of its own, as it does without `--`, is not taken for one that was left out', async () => {
  const without = (option: string, ...argv: string[]) =>
    runCommand(commands, argv, context, { env: { [`npm_config_${option}`]: 'true' } });
  for (const [option, ...argv] of [
    ['dry_run', 'models', 'import', 'catalog.yaml'],
    ['reason', 'organizations', 'suspend', uuidv7(), 'unpaid'],
  ] as const) {
    const { exitCode, stdout, stderr } = await without(option, ...argv);
    expect([exitCode, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`npm took --${option.replace('_', '-')} for itself`);
  }
  expect((await without('search', 'organizations', 'list', '--search', 'First')).exitCode).toBe(0);
  expect((await without('before', 'audit', 'list')).exitCode).toBe(0);
});

test('without a command the help lists every one', async () => {
  const { stdout, exitCode } = await admin();
  expect(exitCode).toBe(0);
  for (const { name } of commands) expect(stdout).toContain(name);
});
