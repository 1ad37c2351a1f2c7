import { createHmac } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, type DescMethod, toBinary } from '@bufbuild/protobuf';
import { type CallOptions, type Client, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService, type TranscribeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { clockStartingAt } from '#shared/clock.ts';
import { type Caller, CallerSchema, Role, serviceCaller } from '#shared/rpc/caller.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { selfSignedCertificate } from '../support/certificate.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { callerOfSession, grpcClient, grpcServiceDefinition, rpcServices } from '../support/grpc-client.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { validRequest } from '../support/valid-request.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

/** Status codes that would mean that the RPC was not reached, or that it failed. */
const notAnswers = [status.INTERNAL, status.UNKNOWN, status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED];

let gateway: TestGateway;
let client: Client;
let simulator: UpstreamSimulator;
let owner: Caller;
let session: string;
beforeAll(async () => {
  simulator = await startUpstreamSimulator();
  gateway = await startTestGateway();
  client = grpcClient(gateway.gateway.rpcUrl!);
  session = await gateway.login();
  owner = callerOfSession(session);
});
afterAll(async () => {
  client?.close();
  await gateway?.[Symbol.asyncDispose]();
  await simulator?.close();
});

type Answer = { code: number; details: string };

/** A token for calls from one service to another, carrying a caller. */
function tokenFor(
  audience: string,
  issuer: string,
  caller: Caller,
  changes: Partial<Parameters<typeof createServiceTokens>[0]> = {},
) {
  const { clock, serviceSecrets } = gateway.env;
  return createServiceTokens({ issuer, secrets: serviceSecrets, clock, ...changes }).mint(audience, caller);
}

const call = async (method: DescMethod, issuer: string, caller: Caller): Promise<Answer> =>
  callWith(method, await tokenFor(method.parent.typeName, issuer, caller));

/** The answer that an RPC gives to a client that shares no code with ours. For a stream, its first message. */
async function callWith(
  method: DescMethod,
  token: string | null,
  through = client,
  request: object = validRequest(method.input, requestOf(method)),
): Promise<Answer> {
  const definition = grpcServiceDefinition(method.parent)[method.localName]!;
  const { path, requestSerialize, responseDeserialize } = definition;
  const metadata = new Metadata();
  if (token !== null) metadata.set('authorization', `Bearer ${token}`);
  const options: CallOptions = { deadline: Date.now() + 15_000 };
  return new Promise((resolve) => {
    if (!definition.responseStream) {
      const done = (error: ServiceError | null) =>
        resolve({ code: error?.code ?? status.OK, details: error?.details ?? '' });
      through.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, options, done);
      return;
    }
    const stream = through.makeServerStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadata,
      options,
    );
    stream.on('error', () => {});
    stream.on('data', () => {
      resolve({ code: status.OK, details: '' });
      stream.cancel();
    });
    stream.on('status', ({ code, details }) => resolve({ code, details }));
  });
}

/** Fields that a valid request needs beyond what the proto's rules can express. */
const requestOf = (method: DescMethod): object =>
  method === ModelsService.method.registerUpstream ? { baseUrl: simulator.url } : {};

/** The owner is also an operator. What neither may call is for services, some of it only for a particular one. */
async function answerOf(method: DescMethod): Promise<Answer> {
  let answer = await call(method, 'edge', owner);
  for (const issuer of ['edge', 'auth', 'models', 'inference', 'jobs', 'usage', 'billing', 'keys']) {
    if (answer.code !== status.PERMISSION_DENIED) break;
    answer = await call(method, issuer, serviceCaller(issuer));
  }
  return answer;
}

test('a model call that names no endpoint is metered under the one of its operation', async () => {
  const body = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'hi' }] };
  const request = { operation: Operation.CHAT_COMPLETIONS, body: Buffer.from(JSON.stringify(body)) };
  const caller = create(CallerSchema, { ...owner, requestId: 'req_without_an_endpoint' });
  const token = await tokenFor(InferenceService.typeName, 'edge', caller);
  expect(await callWith(InferenceService.method.invoke, token, client, request)).toEqual({
    code: status.OK,
    details: '',
  });
  const event = await waitFor(
    async () => {
      const { json } = await gateway.call('GET', '/api/v1/usage/history', session);
      return json.data.find(({ request_id: id }: { request_id: string }) => id === caller.requestId);
    },
    { description: 'the event of the call' },
  );
  expect(event).toMatchObject({ endpoint: '/v1/chat/completions', model: 'sandbox-chat' });
});

test('a model call with a job that no usage event can have is refused', async () => {
  const token = await tokenFor(InferenceService.typeName, 'edge', owner);
  const request = { operation: Operation.CHAT_COMPLETIONS, jobId: 'no UUID' };
  const { code, details } = await callWith(InferenceService.method.invoke, token, client, request);
  expect(status[code], details).toBe('INVALID_ARGUMENT');
  expect(details).toContain('`job_id`');
});

test('a model call that leaves out its operation is told that one is required', async () => {
  const token = await tokenFor(InferenceService.typeName, 'edge', owner);
  const { code, details } = await callWith(InferenceService.method.invoke, token, client, {});
  expect(status[code], details).toBe('INVALID_ARGUMENT');
  expect(details).toMatch(/`operation`.* it is required\.$/);
});

test.each([
  ['no JSON', { message: { case: 'start', value: { sessionJson: '{' } } }, '`session_json` is not valid JSON.'],
  ['nothing', {}, ' it must have exactly one of its fields.'],
])('a realtime session that begins with %s is refused with a clear explanation', async (_what, start, says) => {
  const { path, requestSerialize, responseDeserialize } = grpcServiceDefinition(InferenceService).transcribe!;
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${await tokenFor(InferenceService.typeName, 'edge', owner)}`);
  const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata);
  stream.on('data', () => {}).on('error', () => {});
  stream.write(start);
  const { code, details } = await new Promise<Answer>((resolve) => stream.on('status', resolve));
  expect(status[code], details).toBe('INVALID_ARGUMENT');
  expect(details).toContain(says);
});

test('a realtime session whose client has finished ends after the transcripts of everything committed', async () => {
  const { path, requestSerialize, responseDeserialize } = grpcServiceDefinition(InferenceService).transcribe!;
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${await tokenFor(InferenceService.typeName, 'edge', owner)}`);
  const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata);
  const types: string[] = [];
  stream.on('data', ({ message }: TranscribeResponse) => types.push(JSON.parse(String(message.value)).type));
  stream.write({ message: { case: 'start', value: { model: 'sandbox-transcribe' } } });
  for (const event of [
    { type: 'session.update', session: { type: 'transcription', audio: { input: { turn_detection: null } } } },
    { type: 'input_audio_buffer.append', audio: wavOf(1).subarray(44).toString('base64') },
    { type: 'input_audio_buffer.commit' },
  ]) {
    stream.write({ message: { case: 'eventJson', value: JSON.stringify(event) } });
  }
  stream.end();
  const { code, details } = await new Promise<Answer>((resolve) => stream.on('status', resolve));
  expect(status[code], details).toBe('OK');
  expect(types.at(-1)).toBe('conversation.item.input_audio_transcription.completed');
});

test('an independent gRPC client reaches every RPC of every service, except those that README.md lists as not built', async () => {
  const unimplemented: string[] = [];
  const failed: string[] = [];
  for (const method of rpcServices.flatMap(({ methods }) => methods)) {
    const name = `${method.parent.name}.${method.name}`;
    const { code, details } = await answerOf(method).catch((error: Error) => ({ code: -1, details: error.message }));
    if (code === status.UNIMPLEMENTED) unimplemented.push(name);
    else if (code === -1 || notAnswers.includes(code) || code === status.PERMISSION_DENIED) {
      failed.push(`${name}: ${status[code]} ${details}`);
    }
  }
  expect(failed).toEqual([]);
  expect(unimplemented.toSorted()).toEqual(namedInReadme().toSorted());
});

/** What every member of an organization may call, by service. */
const openToMembers = {
  KeysService: ['CreateKey', 'ListKeys', 'GetKey', 'UpdateKey', 'RotateKey', 'DeleteKey', 'GetKeyQuota'],
  AuthService: [
    ...[
      'Login',
      'Refresh',
      'Logout',
      'GetInvitation',
      'AcceptInvitation',
      'ForgotPassword',
      'ResetPassword',
      'ChangePassword',
    ],
    ...['RequestEmailChange', 'ConfirmEmailChange'],
    ...['GetProfile', 'UpdateProfile', 'GetOrganization', 'GetSigningKeys'],
  ],
  UsageService: ['GetCurrent', 'ListHistory', 'GetSummary', 'GetReport', 'GetKeyAnalytics', 'GetRateLimits'],
  BillingService: [
    ...['GetCurrentPlan', 'RedeemCoupon', 'ReceivePaymentEvent'],
    ...['GetCostLimit', 'SetCostLimit', 'DeleteCostLimit', 'GetPaygSpendCap'],
  ],
  ModelsService: ['ListModels', 'GetModel', 'ListDeprecations'],
  InferenceService: ['Invoke', 'AdmitJob', 'GetRetirement', 'GetRateLimitState', 'Transcribe'],
  JobsService: ['Submit', 'FindSubmitted', 'GetJob', 'ListJobs', 'GetJobStats', 'CancelJob', 'DeleteJob'],
};

/** What its admins and owners may call in addition. */
const openToAdmins = {
  AuthService: [
    ...['UpdateOrganization', 'ListMembers', 'UpdateMember', 'ListAuditEvents'],
    ...['ListInvitations', 'CreateInvitation', 'DeleteInvitation'],
  ],
  UsageService: ['GetTenantBreakdown', 'ExportEvents'],
  BillingService: [
    ...['GetWallet', 'GetCommitment', 'ListTransactions', 'ExportTransactions'],
    ...['SetPaygSpendCap', 'DeletePaygSpendCap'],
    ...['ListInvoices', 'GetInvoice', 'RenderInvoicePdf', 'ListInvoiceTransactions'],
  ],
};

test.each([
  ['a member', Role.MEMBER, [openToMembers]],
  ['an admin', Role.ADMIN, [openToMembers, openToAdmins]],
  ['an owner who is no operator', Role.OWNER, [openToMembers, openToAdmins]],
])('%s may call what is listed, and every other RPC answers PERMISSION_DENIED', async (_who, role, lists) => {
  const open: string[] = [];
  for (const method of rpcServices.flatMap(({ methods }) => methods)) {
    const { code } = await call(method, 'edge', create(CallerSchema, { ...owner, role, operator: false }));
    if (code !== status.PERMISSION_DENIED) open.push(`${method.parent.name}.${method.name}`);
  }
  const listed = lists.flatMap((list) =>
    Object.entries(list).flatMap(([service, names]) => names.map((name) => `${service}.${name}`)),
  );
  expect(open.toSorted()).toEqual(listed.toSorted());
});

test.each([
  ['no token', () => null],
  ['a session token of a user', () => session],
  ['a token for another service', () => tokenFor('modelgateway.elsewhere.v1.ElsewhereService', 'edge', owner)],
  [
    'an expired token',
    (audience: string) => tokenFor(audience, 'edge', owner, { clock: clockStartingAt(Date.now() - 120_000) }),
  ],
  ['a token of a service that may not call', (audience: string) => tokenFor(audience, 'mail', owner)],
  [
    'a token of another secret',
    (audience: string) => tokenFor(audience, 'edge', owner, { secrets: ['another secret of 32 bytes or more'] }),
  ],
] as const)('with %s no RPC of any service is answered', async (_what, token) => {
  for (const method of rpcServices.flatMap(({ methods }) => methods)) {
    const { code } = await callWith(method, await token(method.parent.typeName));
    expect(status[code], `${method.parent.name}.${method.name}`).toBe('UNAUTHENTICATED');
  }
});

test('a token built from the description in caller.proto alone is accepted', async () => {
  const base64url = (part: string | Uint8Array): string => Buffer.from(part).toString('base64url');
  const [secret] = gateway.env.serviceSecrets;
  for (const method of [
    KeysService.method.listKeys,
    UsageService.method.getCurrent,
    BillingService.method.getCurrentPlan,
  ]) {
    const iat = Math.floor(gateway.env.clock.now() / 1000);
    const caller = base64url(toBinary(CallerSchema, owner));
    const claims = { iss: 'edge', aud: method.parent.typeName, iat, exp: iat + 60, caller };
    const signed = [{ alg: 'HS256', typ: 'service+jwt' }, claims]
      .map((part) => base64url(JSON.stringify(part)))
      .join('.');
    const token = `${signed}.${createHmac('sha256', secret!).update(signed).digest('base64url')}`;
    expect(await callWith(method, token), method.name).toEqual({ code: status.OK, details: '' });
  }
});

test('with RPC_TLS_CERT and RPC_TLS_KEY, services answer over TLS and refuse clear text, and /metrics tells until when', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rpc-tls-'));
  const untilMs = Math.floor(Date.now() / 1_000) * 1_000 + 3_600_000;
  const { cert, key, ca } = selfSignedCertificate({ untilMs });
  const env = { RPC_TLS_CERT: join(folder, 'cert.pem'), RPC_TLS_KEY: join(folder, 'key.pem') };
  writeFileSync(env.RPC_TLS_CERT, cert);
  writeFileSync(env.RPC_TLS_KEY, key);
  await using encrypted = await startTestGateway({ env });
  rmSync(folder, { recursive: true });
  const url = encrypted.gateway.rpcUrl!;
  const method = KeysService.method.listKeys;
  const token = await tokenFor(KeysService.typeName, 'edge', owner);
  const [byTls, inClear] = [grpcClient(url, ca), grpcClient(url.replace('https:', 'http:'))];
  expect(await callWith(method, token, byTls)).toEqual({ code: status.OK, details: '' });
  expect((await callWith(method, token, inClear)).code).toBe(status.UNAVAILABLE);
  byTls.close();
  inClear.close();
  const expiry = async (of: TestGateway) =>
    /^gateway_rpc_certificate_expiry_timestamp_seconds (.*)$/m.exec((await of.call('GET', '/metrics')).text)?.[1];
  expect(await expiry(encrypted)).toBe(String(untilMs / 1_000));
  expect(await expiry(gateway)).toBeUndefined();
});

test('a service refuses callers that have no business with it', async () => {
  const strangers = [
    [KeysService, ['billing', 'inference', 'bootstrap']],
    [UsageService, ['billing', 'jobs', 'keys', 'bootstrap']],
    [BillingService, ['keys', 'bootstrap']],
    [ModelsService, ['jobs', 'usage']],
    [InferenceService, ['models', 'usage', 'admin']],
    [JobsService, ['inference', 'billing']],
  ] as const;
  for (const [service, issuers] of strangers) {
    for (const issuer of issuers) {
      const { code } = await call(service.methods[0]!, issuer, owner);
      expect(status[code], `${issuer} to ${service.name}`).toBe('UNAUTHENTICATED');
    }
  }
});

/** `SomeService.SomeRpc` in the section "Not built yet". */
function namedInReadme(): string[] {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const section = /^## Not built yet\n([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(readme)?.[1] ?? '';
  return [...section.matchAll(/`(\w+Service\.\w+)`/g)].map(([, name]) => name!);
}
