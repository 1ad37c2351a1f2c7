import { expect, test } from 'vitest';
import { KeyConstraintsSchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { WholeMessage } from './whole-message.ts';

test('a message that lacks one of its fields does not compile', () => {
  // @ts-expect-error the spend cap is forgotten
  const lacking: WholeMessage<typeof KeyConstraintsSchema> = { modelAllowlist: [], ipAllowlist: [] };
  const whole: WholeMessage<typeof KeyConstraintsSchema> = { ...lacking, spendCapNanoUsd: undefined };
  expect(Object.keys(whole)).toEqual(KeyConstraintsSchema.fields.map(({ localName }) => localName));
});
