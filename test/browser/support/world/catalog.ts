import type { TestGateway } from '../../../support/gateway.ts';
import { ok } from './people.ts';

const dayMs = 86_400_000;

/** Models in addition to the sandbox's own, and what is special about each. */
const models = [
  { name: 'acme/ember-70b', display_name: 'Ember 70B', input: 0.15, output: 0.6 },
  { name: 'acme/ember-8b:fast', display_name: 'Ember 8B Fast', input: 0.02, output: 0.06 },
  { name: 'acme/ember-2', display_name: 'Ember 2', input: 0.4, output: 1.2 },
  { name: 'acme/spark', display_name: 'Spark', input: 0.05, output: 0.1 },
] as const;

export type PriceIds = Readonly<Record<(typeof models)[number]['name'], string>>;

/** Adds to the catalog: a model that retires on a date, one without a date, a private one and one that does not serve. */
export async function growCatalog(gateway: TestGateway, operator: string, tenantId: string): Promise<PriceIds> {
  const post = (path: string, body: object) => ok(gateway, 'POST', `/admin/${path}`, operator, body);
  const sandbox = (model: string, upstream: string, fields: object = {}) =>
    post('deployments', {
      model,
      dialect: 'sandbox',
      base_url: 'sandbox://local',
      upstream_model: upstream,
      ...fields,
    });
  const ids: Record<string, string> = {};
  await Promise.all(
    models.map(async ({ name, display_name, input, output }) => {
      await post('models', {
        name,
        display_name,
        owned_by: 'acme',
        operations: ['chat_completions', 'completions'],
        context_window: 131_072,
        max_output_tokens: 16_384,
      });
      await sandbox(name, 'sandbox-chat');
      const price = await post('prices', {
        model: name,
        input_per_million_tokens_usd: input,
        cached_input_per_million_tokens_usd: input / 2,
        output_per_million_tokens_usd: output,
      });
      ids[name] = price.id;
    }),
  );
  await post('models', {
    name: 'voice/speak',
    display_name: 'Speak',
    owned_by: 'voice',
    operations: ['audio_speech'],
    visibility: 'private',
  });
  await sandbox('voice/speak', 'sandbox-speech');
  await post('grants', { model: 'voice/speak', tenant_id: tenantId });
  await post('models', {
    name: 'studio/paint',
    display_name: 'Paint',
    owned_by: 'studio',
    operations: ['images_generations'],
  });
  await sandbox('studio/paint', 'sandbox-image', { enabled: false });
  // Its jobs run until they are cancelled.
  await post('models', { name: 'test/slow', owned_by: 'test', operations: ['chat_completions'] });
  await sandbox('test/slow', 'sandbox-chat', { sandbox: { latency_ms: 120_000 } });
  await post('prices', { model: 'test/slow', input_per_million_tokens_usd: 0.1, output_per_million_tokens_usd: 0.2 });
  await post('retirements', {
    model: 'acme/ember-2',
    sunset_at: new Date(Date.now() + 23.2 * dayMs).toISOString(),
    replacement_model_name: 'acme/ember-70b',
  });
  await post('retirements', { model: 'acme/spark', retirement_note: 'The provider stops; there is no equal.' });
  return ids as PriceIds;
}
