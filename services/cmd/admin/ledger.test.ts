import { create } from '@bufbuild/protobuf';
import pg from 'pg';
import { expect, test } from 'vitest';
import { type Caller, CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { person, service, startTestBilling, usageEvent } from '../../billing/fixtures/test-billing.ts';
import { commands } from './commands.ts';
import { runCommand } from './run-command.ts';

const operator: Caller = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });

test("an organization's rate limits are set, shown and removed from a shell", async () => {
  await using started = await startTestBilling();
  const { tenantId } = person();
  const limits = async (...argv: string[]) => {
    const { exitCode, stdout, stderr } = await runCommand(
      commands,
      ['organizations', 'limits', tenantId, ...argv, '--json'],
      () =>
        ({
          auth: { adminGetOrganization: async () => ({}) },
          billing: started.billing,
          services: [],
          asOperator: { contextValues: callerContext(operator) },
        }) as never,
    );
    expect([exitCode, stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  };
  const standard = { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 };
  expect(await limits()).toEqual(standard);
  expect(await limits('--requests', '50')).toEqual({ ...standard, requests_per_minute: 50 });
  // What was set before stays.
  expect(await limits('--tokens', '1000')).toEqual({ ...standard, requests_per_minute: 50, tokens_per_minute: 1_000 });
  expect(await limits()).toEqual({ ...standard, requests_per_minute: 50, tokens_per_minute: 1_000 });
  expect(await limits('--plan-limits')).toEqual(standard);
});

test('a sound ledger is reported as sound, and a wrong one fails the command with what is wrong', async () => {
  await using started = await startTestBilling();
  const verify = () =>
    runCommand(
      commands,
      ['ledger', 'verify', '--json'],
      () =>
        ({
          billing: started.billing,
          services: [],
          asOperator: { contextValues: callerContext(operator) },
        }) as never,
    );
  const { tenantId } = person();
  await started.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 9n })] }, service);
  const sound = await verify();
  expect([sound.exitCode, JSON.parse(sound.stdout)]).toEqual([
    0,
    { ledger: 'sound', transactions_checked: 1, entries_checked: 2 },
  ]);

  const owner = new pg.Client({ connectionString: started.database.url });
  await owner.connect();
  await owner.query('update billing.accounts set payg_accrual = payg_accrual + 1, revenue = revenue - 1');
  await owner.end();
  const wrong = await verify();
  expect(wrong.exitCode).not.toBe(0);
  expect(JSON.parse(wrong.stdout)).toMatchObject([{ kind: 'wrong_balance' }, { kind: 'wrong_balance' }]);
});
