import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { messageOf } from '#shared/message-of.ts';
import type { DeploymentRuntime, Verdict } from '../catalog/deployment-runtime.ts';
import { chooseDeployment } from '../domain/routing.ts';
import { modelUnavailable } from '../inference/admission.ts';
import type { Backend, BackendContext } from './backend.ts';
import { fileTranscriber } from './file-transcriber.ts';
import { RelayBackend } from './relay-backend.ts';
import type { SessionConfig } from './session-config.ts';
import { UtteranceBackend } from './utterance-backend.ts';
import { vllmTranscriber } from './vllm-transcriber.ts';

const attemptsMax = 3;
const probeTimeoutMs = 5_000;

/**
 * Finds what answers a session. A deployment that speaks OpenAI's realtime protocol has the session relayed to it; for all others the
 * gateway cuts the utterances itself. A deployment that accepts no WebSockets but is alive is expected to transcribe files.
 */
export async function openBackend(context: BackendContext, config: SessionConfig): Promise<Backend> {
  const files = fileTranscriber(context);
  const tried = new Set<DeploymentRuntime>();
  context.model().retryBudget.deposit();
  for (;;) {
    const model = context.model();
    const deployment = chooseDeployment(model.deployments, tried);
    if (deployment === null) throw modelUnavailable(model.name, 'no deployment takes the session');
    tried.add(deployment);
    const { dialect } = deployment.settings;
    if (dialect === UpstreamDialect.VLLM) return new UtteranceBackend(context, vllmTranscriber(context, files), config);
    if (dialect !== UpstreamDialect.UNSPECIFIED && dialect !== UpstreamDialect.OPENAI) {
      return new UtteranceBackend(context, files, config);
    }
    const run = deployment.start();
    const relay = await RelayBackend.connect(context, deployment, run, config);
    if (relay !== null) return relay;
    const verdict = await signOfLife(deployment, context.signal);
    run.end(verdict);
    if (verdict.kind === 'none') return new UtteranceBackend(context, files, config);
    if (tried.size === attemptsMax || !model.retryBudget.withdraw()) {
      throw modelUnavailable(model.name, 'no deployment could be reached');
    }
  }
}

/** Bad when the server does not answer at all: then it accepts no files either. */
async function signOfLife(deployment: DeploymentRuntime, signal: AbortSignal): Promise<Verdict> {
  try {
    await deployment.upstream.probe(AbortSignal.any([signal, AbortSignal.timeout(probeTimeoutMs)]));
    return { kind: 'none' };
  } catch (error) {
    if (signal.aborted) return { kind: 'none' };
    return { kind: 'bad', message: `a session could not be opened: ${messageOf(error)}` };
  }
}
