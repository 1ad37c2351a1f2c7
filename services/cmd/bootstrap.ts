import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import {
  type ImportedModel,
  ImportedModelSchema,
  ModelsService,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { patiently } from '#shared/db/patiently.ts';
import type { Env } from '#shared/env.ts';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import { StartError } from '#shared/start-error.ts';
import { registrationTimeoutMs } from '../../edge/routes/api/admin/upstreams.ts';
import { type SandboxModel, sandboxBaseUrl, sandboxModels } from '../models/upstream/sandbox/models.ts';
import type { Switchboard } from './switchboard.ts';

/** What the first start created; `password` is set only if it was generated just now. */
export type Bootstrapped = {
  created: boolean;
  email: string;
  password: string | undefined;
  /** The version of a catalog that contains the models. */
  catalogVersion: bigint;
};

/** Creates what a new gateway needs: an operator with an organization, the sandbox's models, and the models of UPSTREAM_BASE_URL. */
export async function bootstrap(
  env: Env,
  switchboard: Pick<Switchboard, 'client'>,
  logger: Logger,
): Promise<Bootstrapped> {
  const self = asService('bootstrap');
  const models = switchboard.client('bootstrap', ModelsService);
  await patiently(() => models.importCatalog({ models: sandboxModels.map(importedSandboxModel), onlyNew: true }, self));
  if (env.upstreamBaseUrl !== undefined) {
    try {
      const answer = await models.registerUpstream(
        {
          baseUrl: env.upstreamBaseUrl,
          secretReference: env.upstreamApiKey === undefined ? '' : 'env:UPSTREAM_API_KEY',
          onlyNew: true,
        },
        { ...self, timeoutMs: registrationTimeoutMs },
      );
      const names = answer.models.map(({ name }) => name);
      logger.info({ count: names.length, models: names.slice(0, 20) }, 'registered the models of UPSTREAM_BASE_URL');
    } catch (err) {
      // The upstream may come up later; models found at an earlier start are in the catalog.
      logger.warn({ err }, 'the models of UPSTREAM_BASE_URL could not be registered; the next start tries again');
    }
  }
  const catalogVersion = await currentVersion(models);

  // Last of all: a generated password has to be shown, which anything that could still fail or hang might prevent.
  const password = env.bootstrapPassword ?? makePassword();
  const owner = { email: env.bootstrapEmail, password, organizationName: 'My organization', userId: uuidv7() };
  const first = await patiently(() => switchboard.client('bootstrap', AuthService).bootstrap(owner, self)).catch(
    (error: unknown) => {
      if (!(error instanceof GatewayError)) throw error;
      if (error.details.code === 'weak_password') throw new StartError(`BOOTSTRAP_PASSWORD: ${error.message}`);
      if (error.reason === ErrorReason.CONFLICT || error.details.param === 'email')
        throw new StartError(`BOOTSTRAP_EMAIL: ${error.message}`);
      throw error;
    },
  );
  return {
    created: first.created,
    email: first.email,
    // A given password is somebody's secret already, and logs keep what a start prints.
    password: first.created && env.bootstrapPassword === undefined ? password : undefined,
    catalogVersion,
  };
}

/** The feed's first message has the version. */
async function currentVersion(models: Client<typeof ModelsService>): Promise<bigint> {
  const enough = new AbortController();
  const options = { ...asService('bootstrap'), signal: enough.signal };
  try {
    for await (const { version } of models.watchCatalog({}, options)) return version;
    throw new Error('the catalog feed ended before its first message');
  } finally {
    enough.abort();
  }
}

/** Satisfies the password rule of service.md (Invitation flow). */
const makePassword = (): string => `${randomBytes(12).toString('base64url')}-aA1`;

const importedSandboxModel = (model: SandboxModel): ImportedModel =>
  create(ImportedModelSchema, {
    name: model.id,
    settings: {
      displayName: model.displayName,
      ownedBy: 'sandbox',
      operations: [...model.operations],
      contextWindow: model.contextWindowTokens,
      maxOutputTokens: model.outputTokensMax,
    },
    deployments: [{ baseUrl: sandboxBaseUrl, upstreamModel: model.id, dialect: UpstreamDialect.SANDBOX }],
    price: model.price,
  });
