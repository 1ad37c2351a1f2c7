/*
 * What caps cost while far from being reached: `node test/bench/caps.ts [requests] [rounds]`, by default 4,000 and 9. Rounds without any
 * cap, with the key's own, and with the key's, the user's and the organization's together take turns at one gateway process. CPU is counted
 * from the first request of a round until the last of its charges is posted; Postgres is listed separately.
 */
import { loadavg } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { gateway, makeUnlimitedKey, signIn } from './contenders/gateway.ts';
import { cpuMsOfTree } from './machine.ts';
import { spreadOf } from './measure.ts';
import { openStage } from './stage.ts';
import { workloads } from './workloads.ts';

const requestCount = Number(process.argv[2] ?? 4_000);
const roundCount = Number(process.argv[3] ?? 9);
/** Far above what is spent here, in USD. */
const limitUsd = 1_000_000;
/** The edge learns of a limit one second after it was set, and forgets it three seconds after the last answer that mentioned it. */
const limitKnownMs = 3_500;

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const stage = await openStage({ keyCount: 1, nice: 0 });
try {
  const entrant = await stage.enter(gateway);
  const { pid } = await stage.launch(entrant);
  const call = await signIn(`http://127.0.0.1:${entrant.port}`);
  const database = new pg.Client(entrant.prepared.env.DATABASE_URL!);
  await database.connect();
  const plain = await makeUnlimitedKey(call, {});
  const capped = await makeUnlimitedKey(call, { spend_cap_usd: limitUsd });

  const limitAll = async (isLimited: boolean): Promise<void> => {
    for (const path of ['/api/v1/profile/cost-limit', '/api/v1/billing/payg-spend-cap']) {
      if (isLimited) await call('PUT', path, { limit_usd: limitUsd });
      else await call('DELETE', path);
    }
  };
  const kinds = [
    { name: 'no cap', token: plain.key, isAllLimited: false },
    { name: "the key's cap", token: capped.key, isAllLimited: false },
    { name: "the key's, the user's and the organization's", token: capped.key, isAllLimited: true },
  ];

  const charges = async (): Promise<number> => {
    const { rows } = await database.query<{ count: string }>(
      'select count(*) from billing.transactions where type = 1',
    );
    return Number(rows[0]!.count);
  };
  let sent = await charges();
  const send = async (token: string, count: number): Promise<void> => {
    const load = {
      port: entrant.port,
      requests: workloads[0]!.requests,
      headers: '',
      tokens: [token],
      connections: 64,
    };
    const { requests, wrong, wrongAnswer } = await stage.generator.run({ ...load, seconds: 0, count });
    if (wrong > 0) throw new Error(`${wrong} of ${requests} answers were wrong: ${wrongAnswer}`);
    sent += requests;
    while ((await charges()) < sent) await delay(100);
  };

  const costs = kinds.map(() => ({ gatewayUs: [] as number[], postgresUs: [] as number[] }));
  for (let round = -1; round < roundCount; round += 1) {
    for (const [index, { token, isAllLimited }] of kinds.entries()) {
      if (isAllLimited || index === 0) {
        await limitAll(isAllLimited);
        await delay(limitKnownMs);
      }
      await send(token, 500);
      const before = { gateway: cpuMsOfTree(pid), postgres: cpuMsOfTree(stage.postgresPid), sent };
      await send(token, requestCount);
      // The first round is the warm-up.
      if (round < 0) continue;
      const perRequest = 1_000 / (sent - before.sent);
      costs[index]!.gatewayUs.push((cpuMsOfTree(pid) - before.gateway) * perRequest);
      costs[index]!.postgresUs.push((cpuMsOfTree(stage.postgresPid) - before.postgres) * perRequest);
    }
  }

  const text = (values: readonly number[], digits: number): string => {
    const { median, min, max } = spreadOf(values);
    return `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`;
  };
  const without = costs[0]!.gatewayUs;
  for (const [index, { name }] of kinds.entries()) {
    const { gatewayUs, postgresUs } = costs[index]!;
    const ratios = text(
      gatewayUs.map((us, round) => us / without[round]!),
      2,
    );
    print(
      `${name.padEnd(46)} ${text(gatewayUs, 0)} µs of CPU a request, ${ratios} times; Postgres ${text(postgresUs, 0)}`,
    );
  }
  print(`${roundCount} rounds of ${requestCount} requests; load ${loadavg()[0]!.toFixed(1)}`);
  await database.end();
} finally {
  await stage.close();
}
process.exit();
