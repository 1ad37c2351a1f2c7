import {
  create,
  type DescMessage,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, type ClientReadableStream, credentials, Metadata, type ServiceDefinition } from '@grpc/grpc-js';
import { decodeJwt } from 'jose';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import {
  InferenceService,
  type InvokeRequestSchema,
  type InvokeResponse,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { type Caller, CallerKind, CallerSchema, Role } from '#shared/rpc/caller.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';

/** A service in the form that @grpc/grpc-js needs, for a client that shares no code with ours. Requests may be plain init objects. */
export function grpcServiceDefinition(service: DescService): ServiceDefinition {
  const methods = service.methods.map((method) => [
    method.localName,
    {
      path: `/${service.typeName}/${method.name}`,
      requestStream: method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
      responseStream: method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
      ...serialization('request', method.input),
      ...serialization('response', method.output),
    },
  ]);
  return Object.fromEntries(methods) as ServiceDefinition;
}

function serialization(side: 'request' | 'response', schema: DescMessage) {
  return {
    [`${side}Serialize`]: (message: object) => Buffer.from(toBinary(schema, create(schema, message as never))),
    [`${side}Deserialize`]: (bytes: Buffer) => fromBinary(schema, bytes),
  };
}

/** A plain gRPC client for a base URL as returned by createRpcServer; close() it after use. */
export function grpcClient(url: string, ca?: string): Client {
  const { host, protocol } = new URL(url);
  if (protocol === 'http:') return new Client(host, credentials.createInsecure());
  // TLS does not allow an address as server name, so grpc-js has to be told the name in the certificate.
  const options = { 'grpc.ssl_target_name_override': 'localhost' };
  return new Client(host, credentials.createSsl(ca === undefined ? null : Buffer.from(ca)), options);
}

/** All services of the gateway. */
export const rpcServices: readonly DescService[] = [
  KeysService,
  AuthService,
  UsageService,
  BillingService,
  ModelsService,
  InferenceService,
  JobsService,
];

/** The caller in the session of the first operator, who owns its organization. */
export function callerOfSession(session: string): Caller {
  const claims = decodeJwt<{ sub: string; sid: string; tenant_id: string }>(session);
  return create(CallerSchema, {
    kind: CallerKind.SESSION,
    userId: claims.sub,
    sessionId: claims.sid,
    tenantId: claims.tenant_id,
    role: Role.OWNER,
    operator: true,
  });
}

/** The caller for a key of that user. */
export function callerOfKey(session: string, apiKeyId: string): Caller {
  const { sub: userId, tenant_id: tenantId } = decodeJwt<{ sub: string; tenant_id: string }>(session);
  return create(CallerSchema, { kind: CallerKind.API_KEY, apiKeyId, userId, tenantId, role: Role.OWNER });
}

/** Starts a model call on behalf of a caller. */
export async function invokeByGrpc(
  client: Client,
  { caller, secrets }: { caller: Caller; secrets: readonly string[] },
  request: MessageInitShape<typeof InvokeRequestSchema>,
  deadlineMs = 15_000,
): Promise<ClientReadableStream<InvokeResponse>> {
  const tokens = createServiceTokens({ issuer: 'edge', secrets, clock: systemClock });
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${await tokens.mint(InferenceService.typeName, caller)}`);
  const { path, requestSerialize, responseDeserialize } = grpcServiceDefinition(InferenceService).invoke!;
  const options = { deadline: Date.now() + deadlineMs };
  return client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata, options);
}
