import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type SigningKey, SigningKeySchema } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { SigningKeyRow } from './signing-key.entity.ts';

/** The public half of a key. */
export const signingKeyMessage = (row: SigningKeyRow): SigningKey =>
  create(SigningKeySchema, {
    kid: row.kid,
    publicKey: row.publicKey,
    status: row.status,
    activatedAt: timestampFromDate(row.activatedAt),
    expiresAt: timestampOrUnset(row.expiresAt),
  } satisfies WholeMessage<typeof SigningKeySchema>);
