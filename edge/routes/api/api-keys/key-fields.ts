import { type TSchema, Type } from 'typebox';
import { type KeyConstraintsSchema, KeyStatus, KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { allowedScopes, type KeyType as KeyTypeName } from '#shared/scopes.ts';
import type { PublicName, WholeMessage } from '#shared/whole-message.ts';
import { idSchema, timeSchema } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { nullable } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { idInPath } from '../id-in-path.ts';

/** The public names of key types and statuses. */
export const keyTypes = spelling({ inference: KeyType.INFERENCE, management: KeyType.MANAGEMENT });
export const keyStatuses = spelling({
  active: KeyStatus.ACTIVE,
  expired: KeyStatus.EXPIRED,
  revoked: KeyStatus.REVOKED,
});

export const keyIdParams = Type.Object({ key_id: idSchema });
export const keyIdInPath = (text: string): string => idInPath(text, 'API key');

export const keyTypeField = Type.Optional(keyTypes.schema);
export const nameField = Type.String({ minLength: 2, maxLength: 255 });

const oneOf = (keyType: KeyTypeName): string => `\`${allowedScopes(keyType).join('`, `')}\``;
export const scopesField = Type.Optional(
  Type.Array(
    Type.String({
      maxLength: 64,
      description: `For an inference key, one of ${oneOf('inference')}. For a management key, one of ${oneOf('management')}.`,
    }),
    { minItems: 1, maxItems: 100, description: 'What the key may be used for.' },
  ),
);
export const expiryField = nullable(timeSchema);

type Constraints = WholeMessage<typeof KeyConstraintsSchema>;

/** The constraints of a key (service.md, Key constraints), in the bodies of POST and PATCH alike. */
export const constraintFields = {
  model_allowlist: nullable(Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { maxItems: 1000 })),
  ip_allowlist: nullable(
    Type.Array(Type.String({ maxLength: 64, description: 'An IP address or a CIDR range.' }), { maxItems: 1000 }),
  ),
  spend_cap_usd: nullable({ ...amountSchema, description: 'What the key may spend per UTC day; 0 blocks all spend.' }),
} satisfies Record<PublicName<keyof Constraints>, TSchema>;

/** The constraints in a body; absent or null: none. @throws INVALID_REQUEST for a cap that is no amount. */
export const readConstraints = (body: Type.Static<Type.TObject<typeof constraintFields>>): Constraints => ({
  modelAllowlist: body.model_allowlist ?? [],
  ipAllowlist: body.ip_allowlist ?? [],
  spendCapNanoUsd: body.spend_cap_usd == null ? undefined : readAmount(body.spend_cap_usd, 'spend_cap_usd', 'from 0'),
});
