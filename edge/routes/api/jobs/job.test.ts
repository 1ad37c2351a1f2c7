import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { JobResultSchema, JobSchema, JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { notFound } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { localClient } from '../../../../test/support/local-client.ts';
import { startRouteEdge } from '../../../../test/support/route-edge.ts';
import { silentLogger as logger } from '../../../../test/support/silent-logger.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { ResultRoom } from '../../../guards/result-room.ts';
import { jobRoutesById } from './job.ts';

const mebibyte = 1024 * 1024;
/** More than a connection holds while nobody reads from it. */
const result = Buffer.from(`{"data":"${'x'.repeat(24 * mebibyte)}"}`);

let edge: FastifyInstance;
let port: number;
/** Awaited before a large result is read. */
let whileReading = async (_signal: AbortSignal): Promise<void> => {};
beforeAll(async () => {
  const jobs = localClient(
    JobsService,
    {
      async getJob({ jobId, resultBytesMax }, { signal }) {
        const job = create(JobSchema, { id: jobId, status: JobStatus.COMPLETED, createdAt: timestampNow() });
        const body = jobId === 'small' ? Buffer.from('{"data":"small"}') : result;
        if (resultBytesMax > 0 && body.byteLength > resultBytesMax) {
          job.resultLeftOutBytes = BigInt(body.byteLength);
          return { job };
        }
        if (body === result) await whileReading(signal);
        job.result = create(JobResultSchema, { contentType: 'application/json', body });
        return { job };
      },
    },
    logger,
  );
  edge = await startRouteEdge([jobRoutesById], {
    jobs,
    // Room for two of the results, but one user's first already exceeds its share.
    resultRoom: new ResultRoom(50 * mebibyte),
    metrics: { shed() {} } as never,
    credentials: {
      authenticate: (userId) => ({
        ...{ kind: 'session', tenantId: uuidv7(), userId, role: Role.MEMBER, tenantSuspended: false, kid: '' },
        ...{ expiresAtMs: Number.POSITIVE_INFINITY, sessionId: uuidv7(), issuedAtMs: 0, operator: false },
        constraints: create(CallerConstraintsSchema),
      }),
      onEnded: () => () => {},
      isFollowed: () => true,
    },
    clock: systemClock,
    logger,
  });
  port = Number(new URL(await edge.listen({ port: 0 })).port);
});
afterAll(() => edge?.close());
const sockets: Socket[] = [];
afterEach(() => {
  whileReading = async () => {};
  for (const socket of sockets) socket.destroy();
});

/** A connection on which a job is requested. */
function asking(userId: string, jobId: string): Socket {
  const socket = connect(port, 'localhost').on('error', () => {});
  socket.write(`GET /api/v1/jobs/${jobId} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${userId}\r\n\r\n`);
  sockets.push(socket);
  return socket;
}

/** Requests a large result, and reads only the beginning of the answer. */
async function askOnly(userId: string): Promise<{ socket: Socket; status: string; head: string }> {
  const socket = asking(userId, 'large');
  await once(socket, 'readable');
  const head = socket.read().toString('latin1');
  return { socket, status: head.slice('HTTP/1.1 '.length).slice(0, 3), head };
}

const get = async (userId: string, jobId = 'large') =>
  fetch(`http://localhost:${port}/api/v1/jobs/${jobId}`, { headers: { authorization: `Bearer ${userId}` } });

const isServed = (userId: string) => async () => {
  const answer = await get(userId);
  await answer.arrayBuffer();
  return answer.status === 200;
};

test('large results wait in memory for their readers only as far as there is room; small ones always do', async () => {
  const first = await askOnly('one');
  expect(first.status).toBe('200');
  // Not a second one for the same user, but one for another.
  const refused = await askOnly('one');
  expect([refused.status, refused.head]).toEqual(['503', expect.stringMatching(/\r\nretry-after: 5\r\n/)]);
  expect(refused.head).toContain('"code":"server_is_overloaded"');
  const second = await askOnly('two');
  expect(second.status).toBe('200');
  expect((await askOnly('three')).status).toBe('503');
  for (const user of ['one', 'three']) expect((await get(user, 'small')).status).toBe(200);

  first.socket.destroy();
  await waitFor(isServed('three'), { description: 'the room of a reader who left' });
  second.socket.resume();
  await waitFor(isServed('two'), { description: 'the room of a reader who has read' });
});

test('a large result is returned unchanged, with its length', async () => {
  const answer = await get('one');
  const text = await answer.text();
  expect(answer.headers.get('content-length')).toBe(String(text.length));
  expect(text.includes(`"result":${result},"usage":null`)).toBe(true);
});

test('a job removed before its large result is read is not found, and leaves no room taken', async () => {
  whileReading = async () => {
    throw notFound('job');
  };
  for (let times = 0; times < 3; times += 1) expect((await get('one')).status).toBe(404);
  whileReading = async () => {};
  expect(await isServed('one')()).toBe(true);
});

test('if a reader leaves while the result is read, reading stops and the room is freed', async () => {
  const isReading = Promise.withResolvers<AbortSignal>();
  whileReading = (signal) => {
    isReading.resolve(signal);
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const socket = asking('one', 'large');
  const signal = await isReading.promise;
  expect((await get('one')).status).toBe(503);
  socket.destroy();
  await waitFor(() => signal.aborted, { description: 'the end of the reading' });
  whileReading = async () => {};
  await waitFor(isServed('one'), { description: 'the room to be free' });
});
