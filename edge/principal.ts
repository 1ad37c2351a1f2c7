import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Role } from '#shared/rpc/caller.ts';
import type { KeyType } from '#shared/scopes.ts';

/** Who makes a request, as far as the edge needs to know. Made once per credential and shared by its requests. */
export type Principal = KeyPrincipal | SessionPrincipal;

type Common = {
  tenantId: string;
  userId: string;
  role: Role;
  /** While set, inference, jobs and realtime are refused; reads go on. */
  tenantSuspended: boolean;
  /** The moment from which the credential is refused, in milliseconds since the Unix epoch; Infinity: never. */
  expiresAtMs: number;
  /** What InferenceService checks within a call. */
  constraints: CallerConstraints;
};

export type KeyPrincipal = Common & {
  kind: 'key';
  keyId: string;
  /** The secret that was sent, by its digest under each pepper in use (digestName). */
  digests: readonly string[];
  keyType: KeyType;
  /** Granted scopes as bits (shared/scopes.ts), retired names resolved. */
  scopeBits: number;
  /** Whether the key may be used from an address; null without an ip_allowlist. */
  allowsAddress: ((ip: string) => boolean) | null;
};

export type SessionPrincipal = Common & {
  kind: 'session';
  sessionId: string;
  /** When its access token was issued, in milliseconds since the Unix epoch: a change of its user ends all tokens issued before. */
  issuedAtMs: number;
  /** The key that signed it: when that is compromised, all sessions it signed for end. */
  kid: string;
  operator: boolean;
};
