import { expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { StartError } from '#shared/start-error.ts';
import { startTestGateway } from '../../test/support/gateway.ts';
import { rowsOf } from '../../test/support/postgres.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { bootstrap } from './bootstrap.ts';
import type { Switchboard } from './switchboard.ts';

test('a start that asks for the first operator again, because the answer was lost, still shows the generated password', async () => {
  await using gateway = await startTestGateway();
  await rowsOf(gateway.env.databaseUrl!, 'update auth.users set operator = false');
  const { switchboard } = gateway.gateway;
  let calls = 0;
  const client: Switchboard['client'] = (issuer, service) => {
    const whole = switchboard.client(issuer, service);
    if (service.typeName !== AuthService.typeName) return whole;
    const auth = switchboard.client(issuer, AuthService);
    const losing: Pick<typeof auth, 'bootstrap'> = {
      async bootstrap(...call) {
        const answer = await auth.bootstrap(...call);
        calls += 1;
        if (calls === 1) throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'The gateway did not answer in time.');
        return answer;
      },
    };
    return { ...whole, ...losing };
  };
  const env = { ...gateway.env, bootstrapEmail: 'first@example.com', bootstrapPassword: undefined };
  const first = await bootstrap(env, { client }, silentLogger);
  expect(calls).toBe(2);
  expect(first).toMatchObject({ created: true, email: env.bootstrapEmail, password: expect.any(String) });
  await gateway.login({ email: first.email, password: first.password! });
  expect(await bootstrap(env, { client }, silentLogger)).toMatchObject({ created: false, password: undefined });
});

test('a later start leaves the sandbox as an operator has changed it, and one with an address that nobody can have names its variable', async () => {
  await using gateway = await startTestGateway();
  const env = { ...gateway.env, bootstrapEmail: 'jürgen@example.com' };
  await expect(bootstrap(env, gateway.gateway.switchboard, silentLogger)).rejects.toThrow(
    new StartError('BOOTSTRAP_EMAIL: Invalid value for `email`: it must be a valid email address.'),
  );
  const operator = await gateway.login();
  const path = '/api/v1/admin/models/sandbox-chat';
  const changed = { display_name: 'Not a model' };
  expect((await gateway.call('PATCH', path, operator, changed)).json).toMatchObject(changed);
  await bootstrap(gateway.env, gateway.gateway.switchboard, silentLogger);
  expect((await gateway.call('GET', path, operator)).json).toMatchObject(changed);
});
