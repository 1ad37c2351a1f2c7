import { expect, test } from 'vitest';
import type { ApiKey } from '../../api/types.ts';
import { constraintsOf, constraintTexts } from './constraints.ts';

test.each([
  {
    model_allowlist: ['acme/large:v2', '/models/Small Chat 7B.gguf'],
    ip_allowlist: ['10.0.0.0/8', '2001:db8::1'],
    spend_cap_usd: 0.000000001,
  },
  { model_allowlist: null, ip_allowlist: null, spend_cap_usd: 0 },
  { model_allowlist: null, ip_allowlist: null, spend_cap_usd: null },
])('a form that is opened and saved sends the constraints as they were: %j', (constraints) => {
  expect(constraintsOf(constraintTexts(constraints as ApiKey))).toEqual(constraints);
});
