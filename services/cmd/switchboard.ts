import { X509Certificate } from 'node:crypto';
import { checkServerIdentity, getCACertificates } from 'node:tls';
import type { DescService } from '@bufbuild/protobuf';
import type { Client, Transport } from '@connectrpc/connect';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import {
  createRpcClientTransport,
  type RpcClientTransport,
  type RpcClientTransportOptions,
} from '#shared/rpc/client-transport.ts';
import { createLocalTransport, type LocalTransport, type LocalTransportDeps } from '#shared/rpc/local-transport.ts';
import type { RpcService } from '#shared/rpc/rpc-service.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';

/**
 * Connects the services of a process with each other and with those elsewhere: local ones are called by the local transport, the rest over
 * the network. Services may be added after clients for them were made, since services call each other.
 */
export class Switchboard {
  readonly #options: SwitchboardOptions;
  readonly #local = new Map<string, LocalTransport>();
  readonly #remote = new Map<string, RpcClientTransport>();

  constructor(options: SwitchboardOptions) {
    this.#options = options;
  }

  /** Serves a service from this process. */
  add(service: RpcService, deps: LocalTransportDeps): void {
    this.#local.set(service.service.typeName, createLocalTransport([service], deps));
  }

  /** A client with which `issuer` calls a service, wherever that is. */
  client<Service extends DescService>(issuer: string, service: Service): Client<Service> {
    const transport = (): Transport => this.#local.get(service.typeName) ?? this.#network(issuer, service);
    return createRpcClient(service, {
      unary: (...call) => transport().unary(...call),
      stream: (...call) => transport().stream(...call),
      open: (...call) => this.#local.get(service.typeName)?.open(...call) ?? transport().stream(...call),
    });
  }

  #network(issuer: string, service: DescService): Transport {
    // modelgateway.keys.v1.KeysService is `keys`; InferenceService, which runs beside the edge, has its own address.
    const name = service.name === 'InferenceService' ? 'inference' : service.typeName.split('.')[1]!;
    const url = this.#options.urls.get(name);
    if (url === undefined) {
      throw gatewayError(ErrorReason.OVERLOADED, 'The gateway cannot answer this at the moment.', {
        internal: `${service.typeName} is not in this process, and RPC_URLS names no ${name}`,
        retryAfterMs: 5_000,
      });
    }
    // One connection per service: large messages, such as jobs, then delay neither a feed of keys nor metering.
    const key = `${issuer} ${service.typeName} ${url}`;
    let transport = this.#remote.get(key);
    if (transport === undefined) {
      const { secrets, ownCertificate } = this.#options;
      const tls = ownCertificate === undefined ? undefined : trusting(ownCertificate);
      // By the machine's clock: processes with a CLOCK, which begin at it whenever they start, have no time in common.
      const tokens = createServiceTokens({ issuer, secrets, clock: systemClock });
      transport = createRpcClientTransport({ url, tokens, tls });
      this.#remote.set(key, transport);
    }
    return transport;
  }

  close(): void {
    for (const transport of this.#remote.values()) transport.close();
  }
}

type SwitchboardOptions = {
  /** SERVICE_SECRET, the one in use first. */
  secrets: readonly string[];
  /** Base URLs of the services in other processes, by name. */
  urls: ReadonlyMap<string, string>;
  /** RPC_TLS_CERT, as PEM: a process of WORKERS, or a shell on the same machine, knows the services' own certificate. */
  ownCertificate: string | undefined;
};

/** Trusts what Node does and, in addition, one certificate, whatever name the server was called by and whoever signed it. */
function trusting(pem: string): RpcClientTransportOptions['tls'] {
  const { fingerprint256 } = new X509Certificate(pem);
  return {
    ca: [...getCACertificates('default'), pem],
    allowPartialTrustChain: true,
    checkServerIdentity: (host, peer) =>
      peer.fingerprint256 === fingerprint256 ? undefined : checkServerIdentity(host, peer),
  };
}
