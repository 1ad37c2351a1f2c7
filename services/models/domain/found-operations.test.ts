import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { foundOperations } from './found-operations.ts';

test('each operation is found for a kind of models', () => {
  const kinds = ['chat', 'embeddings', 'automatic-speech-recognition', 'text-to-speech', 'text-to-image'];
  const found = new Set(kinds.flatMap((kind) => foundOperations('a-model', [kind])));
  expect(new Set([Operation.UNSPECIFIED, ...found])).toEqual(new Set(Object.values(Operation)));
});
