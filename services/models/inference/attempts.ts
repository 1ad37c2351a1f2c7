import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import type { DeploymentRuntime } from '../catalog/deployment-runtime.ts';
import { chooseDeployment } from '../domain/routing.ts';
import type { MeteredCall } from '../metering/metered-call.ts';
import type { UpstreamFailure, UpstreamHead } from '../upstream/upstream.ts';
import { modelUnavailable } from './admission.ts';
import { PulledExchange } from './exchange.ts';
import { upstreamPath } from './operations.ts';
import type { AnswerReader, PreparedCall } from './prepared-call.ts';
import { errorBytesMax, exchangeError, mayTryElsewhere, upstreamError } from './upstream-errors.ts';

export type Answered = { exchange: PulledExchange; reader: AnswerReader; status: number };

/** Tries the deployments of a model until one answers with success. Nothing is tried again behind the first byte. */
export class Attempts {
  readonly #model: ServedModel;
  readonly #call: PreparedCall;
  readonly #metered: MeteredCall;
  readonly #signal: AbortSignal;
  readonly #tried = new Set<DeploymentRuntime>();
  #running: { deployment: DeploymentRuntime; exchange: PulledExchange } | null = null;
  readonly #onAbort = (): void => {
    this.#running?.exchange.abort();
    this.#running?.exchange.interrupt();
  };

  constructor(model: ServedModel, call: PreparedCall, metered: MeteredCall, signal: AbortSignal) {
    this.#model = model;
    this.#call = call;
    this.#metered = metered;
    this.#signal = signal;
    signal.addEventListener('abort', this.#onAbort);
  }

  /** Resolves with the exchange whose head says success. Rejects with the last failure, as one of the gateway's errors. */
  async answered(): Promise<Answered> {
    for (;;) {
      const deployment = chooseDeployment(this.#model.deployments, this.#tried);
      if (deployment === null) throw modelUnavailable(this.#model.name, 'no deployment has room');
      this.#tried.add(deployment);
      const exchange = this.#start(deployment);
      const outcome = await this.#outcome(exchange);
      if (outcome.kind === 'answered')
        return { exchange, reader: this.#call.reader(outcome.head), status: outcome.head.status };
      this.#stop();
      const another = chooseDeployment(this.#model.deployments, this.#tried) !== null;
      if (!another || !mayTryElsewhere(outcome.error, outcome.failure)) throw outcome.error;
    }
  }

  /** The call is over: the running exchange, if it still runs, is aborted. */
  finish(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#stop();
  }

  #start(deployment: DeploymentRuntime): PulledExchange {
    const exchange = new PulledExchange();
    this.#running = { deployment, exchange };
    this.#metered.deploymentId = deployment.id;
    deployment.start();
    exchange.attach(
      deployment.upstream.send(
        {
          operation: this.#metered.event.operation,
          path: upstreamPath(this.#metered.event.operation),
          contentType: this.#call.contentType,
          body: this.#call.bodyFor(deployment.upstreamModel),
          headTimeoutMs: deployment.headTimeoutMs,
          idleTimeoutMs: deployment.idleTimeoutMs,
        },
        exchange,
      ),
    );
    return exchange;
  }

  #stop(): void {
    if (this.#running === null) return;
    this.#running.exchange.abort();
    this.#running.deployment.finish();
    this.#running = null;
  }

  async #outcome(exchange: PulledExchange): Promise<Outcome> {
    for (;;) {
      const event = exchange.take();
      if (event === undefined) {
        if (this.#signal.aborted) throw cancelled();
        await exchange.arrival();
      } else if (event.kind === 'failed') {
        return { kind: 'failed', error: exchangeError(event.failure), failure: event.failure };
      } else if (event.kind === 'head') {
        const { head } = event;
        if (head.status >= 200 && head.status < 300) return { kind: 'answered', head };
        return { kind: 'failed', error: upstreamError(head, await this.#errorBody(exchange)), failure: null };
      }
    }
  }

  /** What of an error's body arrives, up to its bound; a body that breaks off is good enough for a message. */
  async #errorBody(exchange: PulledExchange): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for (;;) {
      const event = exchange.take();
      if (event === undefined) {
        if (this.#signal.aborted) throw cancelled();
        await exchange.arrival();
      } else if (event.kind === 'data') {
        pieces.push(event.chunk);
        bytes += event.chunk.byteLength;
        if (bytes >= errorBytesMax) return Buffer.concat(pieces, errorBytesMax);
      } else {
        return Buffer.concat(pieces);
      }
    }
  }
}

type Outcome =
  | { kind: 'answered'; head: UpstreamHead }
  | { kind: 'failed'; error: GatewayError; failure: UpstreamFailure | null };

export const cancelled = (): GatewayError => gatewayError(ErrorReason.CANCELLED, 'The request was cancelled.');
