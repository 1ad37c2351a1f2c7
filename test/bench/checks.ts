// `node test/bench/checks.ts`: CPU time of the checks that every request passes, in µs each, measured alone in a loop: authentication with
// surface, scope, address and model among 100,000 live keys; the rate limiter; the retirement check with its headers.
import { createHash, randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { makeKeySecret } from '#shared/key-secret.ts';
import { createLogger } from '#shared/logger.ts';
import { admit, compileAccess } from '../../edge/guards/admit.ts';
import { retirementHeaders } from '../../edge/openai/retirement-headers.ts';
import { createKeyCredentials } from '../../edge/snapshots/keys.ts';
import { Catalog } from '../../services/models/catalog/catalog.ts';
import { retirementState } from '../../services/models/domain/retirement.ts';
import { admitModel } from '../../services/models/inference/admission.ts';
import { RateLimiter } from '../../services/models/limits/rate-limiter.ts';
import { waitFor } from '../support/wait-for.ts';

const keyCount = 100_000;
const loops = 300_000;
const print = (line: string): void => void process.stdout.write(`${line}\n`);

/** What a call costs in µs of CPU: the median of five runs of `loops` calls each. */
function costOf(call: (index: number) => unknown): number {
  const costs: number[] = [];
  let kept: unknown;
  for (let run = 0; run < 6; run++) {
    const before = process.cpuUsage();
    for (let index = 0; index < loops; index++) kept = call(index);
    const { user, system } = process.cpuUsage(before);
    if (run > 0) costs.push((user + system) / loops);
  }
  if (kept === undefined) throw new Error('the calls did nothing');
  return costs.sort((a, b) => a - b)[2]!;
}

/** Prints the cost of a call, minus that of `around`, which is what the loop needs to prepare a request. */
function measure(
  name: string,
  goal: string,
  call: (index: number) => unknown,
  around?: (index: number) => unknown,
): void {
  const costUs = costOf(call) - (around === undefined ? 0 : costOf(around));
  print(`${name}: ${costUs.toFixed(3)} µs (goal ${goal})`);
}

const secrets = Array.from({ length: keyCount }, () => makeKeySecret(randomBytes(32)));
const tenantId = uuidv7();
const model = 'acme/model:v1';
/** Stands in for Keys without a network or a database, since only the edge is measured. */
const keys = {
  async authenticate() {
    return {
      version: 1n,
      principal: {
        keyId: uuidv7(),
        tenantId,
        userId: uuidv7(),
        role: 1,
        keyType: KeyType.INFERENCE,
        scopes: ['inference:chat', 'models:list'],
        constraints: { modelAllowlist: [model], ipAllowlist: ['10.0.0.0/8', '2001:db8::/32', '127.0.0.1'] },
        tenantSuspended: false,
        version: 1n,
        keyPreview: '',
      },
    };
  },
  async *watchKeys(_request: unknown, { signal }: { signal: AbortSignal }) {
    while (!signal.aborted) {
      yield { version: 1n, event: { case: 'heartbeat', value: {} } };
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  },
  acknowledgeKeys: async () => ({ leaseMs: 2_000, leaseHolder: '' }),
  recordKeyUse: async () => ({}),
} as unknown as Client<typeof KeysService>;

// The clock stands still, so that the feed's lease does not lapse while the loop lets nothing else run.
const clock = { now: Date.now, monotonic: () => 1_000 };
const logger = createLogger({ level: 'error', name: 'bench' });
const credentials = createKeyCredentials({
  keys,
  edgeId: uuidv7(),
  peppers: [{ version: 1, secret: createHash('sha256').update('a pepper').digest('hex') }],
  clock,
  logger,
});
await waitFor(() => credentials.isLive, { description: 'the feed' });
for (let from = 0; from < keyCount; from += 1_000) {
  await Promise.all(secrets.slice(from, from + 1_000).map((secret) => credentials.authenticate(secret)));
}

const noMetrics = { answered() {}, ended() {} };
const catalog = new Catalog({
  openUpstream: () => ({}) as never,
  metricsOf: () => noMetrics,
  clock: systemClock,
  logger,
});
const retirement = {
  deprecatedAt: timestampFromMs(Date.now() - 86_400_000),
  sunsetAt: timestampFromMs(Date.now() + 86_400_000),
  replacementModelName: 'acme/model:v2',
};
catalog.replace(
  create(CatalogSnapshotSchema, {
    version: 1n,
    models: [
      {
        model: { name: model, operations: [Operation.CHAT_COMPLETIONS], visibility: 1, retirement },
        deployments: [{ id: uuidv7(), status: 2, settings: { baseUrl: 'http://127.0.0.1', enabled: true } }],
      },
    ],
  }),
);

const rule = compileAccess({ surface: 'api', scope: 'inference:chat' }, { startsWork: true });
const secretOf = (index: number): string => secrets[(index * 7_919) % keyCount]!;
measure(
  'authentication, surface, scope, address and model',
  'at most 5',
  (index) => {
    const principal = credentials.authenticate(secretOf(index));
    if (principal instanceof Promise) throw new Error('a known key was asked for');
    admit(principal, rule, '10.1.2.3');
    const { constraints } = principal;
    return admitModel(
      catalog,
      { name: model, operation: Operation.CHAT_COMPLETIONS, tenantId, constraints },
      clock.now(),
    );
  },
  // A real request has just written its secret; here it comes from distant memory.
  (index) => secretOf(index).charCodeAt(20),
);

const limiter = new RateLimiter(systemClock.monotonic);
const limits = { requestsPerMinute: 1e9, tokensPerMinute: 1e12, concurrentRequests: 1e6 };
const callers = Array.from({ length: 1_000 }, () => ({ apiKeyId: uuidv7(), userId: '' }));
// The time is read once per request, for both the limiter and the budgets.
measure('rate limiter, admission and end', 'at most 0.3', (index) => {
  const admission = limiter.admit(callers[index % callers.length]!, limits, 200, index / 1_000);
  if (admission instanceof Promise) throw new Error('a share was asked for');
  admission.release(150);
  return admission;
});

const served = catalog.find(model)!;
measure('retirement check and headers of an announced model', 'at most 0.5', () => {
  if (retirementState(served.retirement, clock.now()) === 'retired') throw new Error('retired');
  return retirementHeaders(model, served.publishedRetirement, 'https://gateway.example');
});
await credentials.close();
