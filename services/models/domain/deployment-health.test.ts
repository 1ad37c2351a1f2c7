import { expect, test } from 'vitest';
import { DeploymentStatus as Status } from '#gen/modelgateway/models/v1/model_pb.ts';
import { DeploymentHealth, type HealthReport, type Judged } from './deployment-health.ts';

const good: HealthReport = { successes: 10, failures: 0, consecutiveFailures: 0, ejected: false, lastError: '' };
const bad: HealthReport = { successes: 0, failures: 5, consecutiveFailures: 5, ejected: true, lastError: 'refused' };

function health(...reports: [edge: string, report: HealthReport, atMs: number][]): DeploymentHealth {
  const deployment = new DeploymentHealth();
  for (const [edge, report, atMs] of reports) deployment.take(edge, report, atMs);
  return deployment;
}

const as = (status: Status, reason = ''): Judged => ({ status, reason });

test('a deployment is pending until something succeeds', () => {
  const nothingYet = { ...good, successes: 0, failures: 1, consecutiveFailures: 1, lastError: 'refused' };
  const told = health(['a', nothingYet, 0]).judge(as(Status.PENDING, 'not probed yet'), 0);
  expect(told).toEqual({ status: Status.PENDING, reason: 'refused' });
  expect(health(['a', nothingYet, 0]).judge(as(Status.PENDING, 'refused'), 0)).toBeNull();
  // Of edges that fail otherwise one is told, rather than each in turn: every change of the catalog is read by all.
  const otherwise = health(['a', nothingYet, 0], ['b', { ...nothingYet, lastError: 'no secret' }, 0]);
  expect(otherwise.judge(as(Status.PENDING, 'refused'), 0)).toBeNull();
  expect(otherwise.judge(as(Status.PENDING, 'not probed yet'), 0)?.reason).toBe('no secret');
  expect(health(['a', good, 0]).judge(as(Status.PENDING), 0)?.status).toBe(Status.RUNNING);
  // Enabled again after it had been stopped.
  expect(health(['a', good, 0], ['a', nothingYet, 60_000]).judge(as(Status.PENDING, 'refused'), 60_000)).toBeNull();
});

test('it is Failed when every edge has given up on it, and Degraded while at least one has', () => {
  expect(health(['a', bad, 0]).judge(as(Status.RUNNING), 0)).toEqual({ status: Status.FAILED, reason: 'refused' });
  expect(health(['a', bad, 0], ['b', good, 0]).judge(as(Status.RUNNING), 0)?.status).toBe(Status.DEGRADED);
});

test('an edge that fell silent no longer counts', () => {
  const both = health(['a', bad, 0], ['b', good, 10_000]);
  expect(both.judge(as(Status.RUNNING), 10_001)?.status).toBe(Status.DEGRADED);
  expect(both.judge(as(Status.DEGRADED), 20_001)?.status).toBe(Status.RUNNING);
  expect(both.judge(as(Status.RUNNING), 60_000)).toBeNull();
});

test('it returns on trial first, and is Running once a call has succeeded', () => {
  const onTrial = { ...good, successes: 1, consecutiveFailures: 6 };
  const recovering = health(['a', bad, 0], ['a', onTrial, 5_000]);
  expect(recovering.judge(as(Status.FAILED), 5_000)?.status).toBe(Status.DEGRADED);
  recovering.take('a', good, 12_000);
  expect(recovering.judge(as(Status.DEGRADED), 12_000)).toEqual({ status: Status.RUNNING, reason: '' });
});

test('one that failed stays Failed until something succeeds, however long nobody has tried', () => {
  const nobodyTried = { ...bad, failures: 0, ejected: false };
  const dead = health(['a', good, 0], ['a', bad, 1_000], ['a', nobodyTried, 16_000]);
  expect(dead.judge(as(Status.FAILED), 16_000)).toBeNull();
  // An edge that has just started knows of no failures.
  dead.take('b', { ...nobodyTried, consecutiveFailures: 0 }, 17_000);
  expect(dead.judge(as(Status.FAILED), 17_000)).toBeNull();
  expect(dead.judge(as(Status.RUNNING), 17_000)?.status).toBe(Status.DEGRADED);
  dead.take('a', { ...nobodyTried, successes: 1 }, 18_000);
  expect(dead.judge(as(Status.FAILED), 18_000)?.status).toBe(Status.DEGRADED);
});

test('errors degrade it for ten seconds, a single accident does not', () => {
  const accident = { ...good, failures: 1 };
  expect(health(['a', accident, 0]).judge(as(Status.RUNNING), 0)).toBeNull();
  const flaky = health(['a', { ...good, failures: 3 }, 0], ['a', good, 1_000]);
  expect(flaky.judge(as(Status.RUNNING), 1_000)?.status).toBe(Status.DEGRADED);
  expect(flaky.judge(as(Status.DEGRADED), 9_000)?.status).toBe(Status.DEGRADED);
  expect(flaky.judge(as(Status.DEGRADED), 10_000)?.status).toBe(Status.RUNNING);
});

test('what an operator stopped stays stopped', () => {
  expect(health(['a', good, 0]).judge(as(Status.STOPPED), 0)).toBeNull();
});
