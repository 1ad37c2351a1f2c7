import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ModelSettingsSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ImportedModelSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { modelEntities } from '../db/catalog.entities.ts';
import { unprobed } from '../health/first-status.ts';
import { importModels } from './import.ts';

test('an import of thousands of models writes a few hundred at a time, so that the process goes on with its other work', async () => {
  await using database = await createTestDatabase();
  const connection = { connection: database.url, logger: silentLogger };
  const service = await openServiceDatabase({ service: 'models', entities: modelEntities, ...connection });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  const flushed: number[] = [];
  const models = Array.from({ length: 3_000 }, (_, index) =>
    create(ImportedModelSchema, {
      name: `many/${index}`,
      settings: {},
      deployments: [{ baseUrl: 'http://one.test/v1' }],
      price: { inputPerMillionNanoUsd: 1n },
    }),
  );
  const imported = await transaction(service, (em) => {
    em.getEventManager().registerSubscriber({
      onFlush: ({ uow }) => void flushed.push(uow.getIdentityMap().values().length),
    });
    return importModels(em, models, unprobed, new Date('2030-01-01T00:00:00Z'));
  });
  expect(imported).toMatchObject({ modelsCreated: 3_000, deploymentsCreated: 3_000, pricesCreated: 3_000 });
  expect(Math.max(...flushed)).toBeLessThanOrEqual(1_000);
  const { rows } = await service.query<{ complete: bigint }>({
    text: `select count(distinct models.id) as complete
      from models join deployments on deployments.model_id = models.id join prices on prices.model_id = models.id`,
    values: [],
  });
  expect(rows[0]!.complete).toBe(3_000n);
});

test('a price imported by a clock that is behind applies nevertheless, and keeps the rates that it does not name', async () => {
  await using database = await createTestDatabase();
  const connection = { connection: database.url, logger: silentLogger };
  const service = await openServiceDatabase({ service: 'models', entities: modelEntities, ...connection });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  const importAt = (time: string, fields: MessageInitShape<typeof ImportedModelSchema>) =>
    transaction(service, (em) => {
      const model = { ...create(ImportedModelSchema, fields), name: 'one', settings: create(ModelSettingsSchema) };
      return importModels(em, [model], unprobed, new Date(time));
    });
  await importAt('2030-01-01T00:00:30Z', { price: { inputPerMillionNanoUsd: 1n, outputPerMillionNanoUsd: 5n } });
  await importAt('2030-01-01T00:00:10Z', { priceChanges: { inputPerMillionNanoUsd: 2n } });
  const { rows } = await service.query({
    text: 'select rates, effective_from <= created_at as "appliesAtOnce" from prices order by effective_from desc limit 1',
    values: [],
  });
  const rates = { inputPerMillionNanoUsd: '2', outputPerMillionNanoUsd: '5' };
  expect(rows).toEqual([{ rates, appliesAtOnce: true }]);
});
