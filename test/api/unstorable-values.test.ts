import { create, type DescField, type DescMethod, type Message, ScalarType } from '@bufbuild/protobuf';
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { type Caller, callerContext } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { callerOfSession, rpcServices } from '../support/grpc-client.ts';
import { validRequest } from '../support/valid-request.ts';

let gateway: TestGateway;
let owner: Caller;
beforeAll(async () => {
  gateway = await startTestGateway();
  owner = callerOfSession(await gateway.login());
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

/** Values that Postgres cannot store in a field. */
function unstorable(field: DescField): readonly unknown[] {
  if (field.scalar === ScalarType.STRING) return ['a\0b'];
  if (field.scalar === ScalarType.UINT64) return [2n ** 64n - 1n];
  if (field.message !== TimestampSchema) return [];
  return [
    // The last moment of 9999 rounds up to the first of the next year.
    { seconds: 253_402_300_799n, nanos: 999_999_999 },
    { seconds: 2n ** 63n - 1n, nanos: 0 },
    { seconds: -(2n ** 63n), nanos: 0 },
    { seconds: 0n, nanos: -1 },
  ].map((time) => reflect(TimestampSchema, create(TimestampSchema, time)));
}

const nested = ({ message }: DescField) => (message === TimestampSchema ? undefined : message);

/** The path of fields to each value of a message. Usage events are judged one by one. */
function* valuesIn(fields: readonly DescField[], above: readonly DescField[] = []): Generator<DescField[]> {
  for (const field of fields) {
    const path = [...above, field];
    const message = nested(field);
    if (message === undefined) yield path;
    else if (message !== UsageEventSchema && !above.includes(field)) yield* valuesIn(message.fields, path);
  }
}

/** Puts a value where the path leads. */
function put(message: ReflectMessage, [field, ...rest]: readonly DescField[], value: unknown): void {
  const inner = nested(field!);
  const below = inner === undefined ? null : reflect(inner, validRequest(inner));
  if (below !== null) put(below, rest, value);
  const set = (below ?? value) as never;
  if (field!.fieldKind === 'map') message.get(field!).set('a_name', set);
  else if (field!.fieldKind === 'list') {
    message.get(field!).clear();
    message.get(field!).add(set);
  } else message.set(field!, set);
}

/** The path as complaints write it: in the public API, the fields of settings are next to the others. */
const wayTo = (path: readonly DescField[]): string =>
  path
    .filter(({ name }) => name !== 'settings')
    .map((field) => (field.fieldKind === 'list' ? `${field.name}[0]` : field.name))
    .join('.');

/** The field named in the refusal of a request; for a stream, of its first message. */
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

test('a value that cannot be stored is refused in every field of every RPC, naming the field', async () => {
  const others: string[] = [];
  let values = 0;
  for (const method of rpcServices.flatMap(({ methods }) => methods)) {
    for (const path of valuesIn(method.input.fields)) {
      for (const value of unstorable(path.at(-1)!)) {
        const request = validRequest(method.input);
        put(reflect(method.input, request), path, value);
        const issuer = method === ModelsService.method.reportDeploymentHealth ? 'inference' : 'edge';
        const named = await refusedField(method, issuer, request);
        if (named !== wayTo(path)) others.push(`${method.parent.name}.${method.name} ${wayTo(path)}: ${named}`);
        values += 1;
      }
    }
  }
  expect(others).toEqual([]);
  expect(values).toBeGreaterThan(300);
});
