import type { TestGateway } from '../../../support/gateway.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { ok, type Person } from './people.ts';

/** The id of a completed job; another one failed. */
export async function runJobs(gateway: TestGateway, { token }: Person): Promise<string> {
  const submit = (body: object) => ok(gateway, 'POST', '/jobs', token, { endpoint: '/v1/chat/completions', body });
  const messages = [{ role: 'user', content: 'Summarise the last quarter in a sentence.' }];
  const [job] = await Promise.all([
    submit({ model: 'acme/ember-8b:fast', messages }),
    submit({ model: 'acme/ember-70b', messages: [] }),
  ]);
  await waitFor(
    async () => {
      const { by_status } = await ok(gateway, 'GET', '/jobs/stats', token);
      return by_status.completed === 1 && by_status.failed === 1;
    },
    { description: 'both jobs', timeoutMs: 30_000, intervalMs: 100 },
  );
  return job.id;
}
