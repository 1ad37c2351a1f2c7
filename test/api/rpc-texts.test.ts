import {
  create,
  type DescField,
  type DescMethod,
  type DescService,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf';
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { validRequest } from '../support/valid-request.ts';

const services: readonly DescService[] = [
  KeysService,
  AuthService,
  UsageService,
  BillingService,
  ModelsService,
  InferenceService,
  JobsService,
];

let gateway: TestGateway;
let owner: Caller;
beforeAll(async () => {
  gateway = await startTestGateway();
  const claims = decodeJwt<{ sub: string; sid: string; tenant_id: string }>(await gateway.login());
  owner = create(CallerSchema, {
    kind: CallerKind.SESSION,
    userId: claims.sub,
    sessionId: claims.sid,
    tenantId: claims.tenant_id,
    role: Role.OWNER,
    operator: true,
  });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const nested = (field: DescField) =>
  (field.fieldKind === 'message' || field.fieldKind === 'list') && field.message !== undefined ? field.message : null;

/** The fields on the way to each text of a message. Usage events are judged one by one, each by itself. */
function* textsIn(fields: readonly DescField[], above: readonly DescField[] = []): Generator<DescField[]> {
  for (const field of fields) {
    const path = [...above, field];
    const message = nested(field);
    if (message !== null) {
      if (message !== UsageEventSchema && !above.includes(field)) yield* textsIn(message.fields, path);
    } else if (
      field.scalar === ScalarType.STRING ||
      (field.fieldKind === 'map' && field.mapKey === ScalarType.STRING)
    ) {
      yield path;
    }
  }
}

/** Puts a text where the fields lead. */
function put(message: ReflectMessage, [field, ...rest]: readonly DescField[], text: string): void {
  const inner = nested(field!);
  const below = inner === null ? null : reflect(inner, validRequest(inner));
  if (below !== null) put(below, rest, text);
  const value = (below ?? text) as never;
  if (field!.fieldKind === 'map') message.get(field!).set('a_name', value);
  else if (field!.fieldKind === 'list') {
    message.get(field!).clear();
    message.get(field!).add(value);
  } else message.set(field!, value);
}

/** As complaints write it: the public API has the fields of settings beside the others. */
const wayTo = (path: readonly DescField[]): string =>
  path
    .filter(({ name }) => name !== 'settings')
    .map((field) => (field.fieldKind === 'list' ? `${field.name}[0]` : field.name))
    .join('.');

/** The field that is named where a request is refused for one; of a stream, by its first message. */
async function refusedField(method: DescMethod, issuer: string, request: Message): Promise<string | undefined> {
  const { clock, serviceSecrets } = gateway.env;
  const tokens = createServiceTokens({ issuer, secrets: serviceSecrets, clock });
  const transport = createRpcClientTransport({ url: gateway.gateway.rpcUrl!, tokens });
  const client = createRpcClient(method.parent, transport) as unknown as Record<
    string,
    (request: unknown, options: object) => Promise<unknown> & AsyncIterable<unknown>
  >;
  const options = { contextValues: callerContext(owner), timeoutMs: 15_000 };
  try {
    if (method.methodKind === 'unary') await client[method.localName]!(request, options);
    else {
      const requests = method.methodKind === 'bidi_streaming' ? only(request) : request;
      for await (const _answer of client[method.localName]!(requests, options)) break;
    }
    return undefined;
  } catch (error) {
    return hasReason(error, ErrorReason.INVALID_REQUEST) ? error.details.param : String(error);
  } finally {
    transport.close();
  }
}

async function* only(request: Message) {
  yield request;
}

test('a text with a NUL is refused in every field of every RPC, by the name of the field', async () => {
  const others: string[] = [];
  let texts = 0;
  for (const method of services.flatMap(({ methods }) => methods)) {
    for (const path of textsIn(method.input.fields)) {
      const request = validRequest(method.input);
      put(reflect(method.input, request), path, 'a\0b');
      const issuer = method === ModelsService.method.reportDeploymentHealth ? 'inference' : 'edge';
      const named = await refusedField(method, issuer, request);
      if (named !== wayTo(path)) others.push(`${method.parent.name}.${method.name} ${wayTo(path)}: ${named}`);
      texts += 1;
    }
  }
  expect(others).toEqual([]);
  expect(texts).toBeGreaterThan(250);
});
