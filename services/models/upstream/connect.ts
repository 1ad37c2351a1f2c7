import { type DeploymentSettings, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { plainBaseUrl } from '#shared/bare-url.ts';
import type { Clock } from '#shared/clock.ts';
import { effectiveSettings } from '../domain/deployment-settings.ts';
import { createHttpUpstream } from './http-upstream.ts';
import { createSandbox } from './sandbox/sandbox.ts';
import type { ForwardProxy } from './tls.ts';
import type { Upstream } from './upstream.ts';

type ConnectDeps = {
  clock: Clock;
  /** Looks up a secret reference; undefined when there is no such secret. */
  secret(reference: string): string | undefined;
  /** On the way to servers that speak TLS. */
  proxy?: ForwardProxy | undefined;
};

/** Connects to what a deployment's settings name: the sandbox, or a server over HTTP. */
export const connectUpstream =
  ({ clock, secret, proxy }: ConnectDeps) =>
  (chosen: DeploymentSettings): Upstream => {
    const settings = effectiveSettings(chosen);
    if (settings.dialect === UpstreamDialect.SANDBOX) return createSandbox({ clock, knobs: sandboxKnobs(settings) });
    const { secretReference } = settings;
    const apiKey = secretReference ? secret(secretReference) : undefined;
    const upstream = createHttpUpstream({
      baseUrl: plainBaseUrl(settings.baseUrl ?? ''),
      apiKey,
      connectTimeoutMs: settings.connectTimeoutMs,
      proxy,
    });
    return secretReference && apiKey === undefined ? withoutSecret(upstream, secretReference) : upstream;
  };

/** An upstream whose secret is missing: a call without it would be refused, or taken for anybody's. */
function withoutSecret(upstream: Upstream, secretReference: string): Upstream {
  const fault = `${variableOf(secretReference)} is not set`;
  const refuse = () => Promise.reject(new Error(fault));
  return { ...upstream, fault, listModels: refuse, probe: refuse };
}

/** The variable that a secret reference names. */
export const variableOf = (secretReference: string): string => secretReference.replace(/^env:/, '');

/**
 * Resolves `env:UPSTREAM_…` from the environment, which holds the secrets of upstreams. It also holds the gateway's own, so no other name
 * is looked up: a deployment's upstream may be anybody's.
 */
export const environmentSecrets =
  (source: Readonly<Record<string, string | undefined>>) =>
  (reference: string): string | undefined =>
    (reference.startsWith('env:UPSTREAM_') && source[variableOf(reference)]) || undefined;

function sandboxKnobs({ sandbox }: DeploymentSettings) {
  if (sandbox === undefined) return undefined;
  return {
    latencyMs: sandbox.latencyMs,
    chunkDelayMs: sandbox.chunkDelayMs,
    errorRate: sandbox.errorPerMillion / 1_000_000,
    // 0 would cut a body before its first piece.
    cutAfterChunks: sandbox.cutAfterChunks || undefined,
  };
}
