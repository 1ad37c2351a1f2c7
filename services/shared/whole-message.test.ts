import { expect, test } from 'vitest';
import { KeyConstraintsSchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { PublicName, WholeMessage } from './whole-message.ts';

test('a message that lacks one of its fields does not compile', () => {
  // @ts-expect-error the spend cap is forgotten
  const lacking: WholeMessage<typeof KeyConstraintsSchema> = { modelAllowlist: [], ipAllowlist: [] };
  const whole: WholeMessage<typeof KeyConstraintsSchema> = { ...lacking, spendCapNanoUsd: undefined };
  expect(Object.keys(whole)).toEqual(KeyConstraintsSchema.fields.map(({ localName }) => localName));
});

test('a field has the name that the public API gives it', () => {
  const names: Record<PublicName<keyof WholeMessage<typeof KeyConstraintsSchema>>, true> = {
    model_allowlist: true,
    ip_allowlist: true,
    spend_cap_usd: true,
  };
  expect(Object.keys(names)).toHaveLength(KeyConstraintsSchema.fields.length);
});
