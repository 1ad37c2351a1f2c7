import { create, type DescMessage, type DescService, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceDefinition } from '@grpc/grpc-js';

/**
 * A service as @grpc/grpc-js describes one, so that a client which shares no code with ours can call it. Requests may
 * be plain init objects.
 */
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

/** The bare gRPC client for a base URL as createRpcServer answers it; close() it after use. */
export function grpcClient(url: string, ca?: string): Client {
  const { host, protocol } = new URL(url);
  if (protocol === 'http:') return new Client(host, credentials.createInsecure());
  // TLS allows no server name that is an address, so grpc-js has to be told the name in the certificate.
  const options = { 'grpc.ssl_target_name_override': 'localhost' };
  return new Client(host, credentials.createSsl(ca === undefined ? null : Buffer.from(ca)), options);
}
