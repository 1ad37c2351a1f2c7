import type { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

/**
 * The one interface to anything that answers model calls: an OpenAI-compatible server over HTTP, or the sandbox. Push style, so that a
 * chunk costs neither a promise nor a stream object.
 */
export type Upstream = {
  /** Why it must not be sent anything, for operators; undefined: it may. */
  fault?: string;
  /** Starts one exchange. Never throws; failures arrive at `handler.onError`. */
  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamExchange;
  /** Opens a WebSocket at a path below the base URL. Never throws; failures arrive at `handler.onClose`. Null: it has none. */
  openSocket: ((path: string, handler: SocketHandler) => UpstreamSocket) | null;
  /** The models that the upstream offers (GET /models). */
  listModels(signal: AbortSignal): Promise<ListedModel[]>;
  /** Resolves if something there would accept a call. Rejects with the reason why not. */
  probe(signal: AbortSignal): Promise<void>;
  /** A text from the upstream without our key for it and its address, which clients must not see. */
  redact(text: string): string;
  /** Closes idle connections and ends what is running. */
  close(): Promise<void>;
};

/** A model as its upstream lists it. */
export type ListedModel = {
  /** The upstream's own name for it. */
  id: string;
  /** Prompt and answer together, in tokens; undefined when the upstream does not say. */
  contextWindow: number | undefined;
  /** What it is for, in the words of the list: a type, a task, capabilities. */
  kinds: readonly string[];
  /** The kind of server, if `owned_by` tells it. */
  dialect: UpstreamDialect;
};

/** A range of a file, sent without being held in memory. The file must stay until the exchange has ended. */
type FileRange = { file: string; start: number; end: number };

export type BodyPiece = Uint8Array | FileRange;

/** One request to an upstream. */
export type UpstreamRequest = {
  operation: Operation;
  /** Path below the deployment's base URL, e.g. `/chat/completions`. */
  path: string;
  /** The `x-request-id` of the client's answer; sent as `x-client-request-id`, by which OpenAI finds a request that got no answer. */
  requestId: string;
  contentType: string;
  /** The body, already in the upstream's terms: one piece, or the pieces of a spliced one. */
  body: readonly BodyPiece[];
  /** How long the response head may take, in milliseconds. */
  headTimeoutMs: number;
  /** The longest pause between two pieces of the body, in milliseconds. */
  idleTimeoutMs: number;
};

/** The response head. Header names are lower case. */
export type UpstreamHead = {
  status: number;
  header(name: string): string | undefined;
};

/** Receives one exchange: onHead, then any number of onData, then exactly one of onEnd and onError. onError may also come first. */
export type UpstreamHandler = {
  onHead(head: UpstreamHead): void;
  /** Bytes of the body, owned by the receiver. */
  onData(chunk: Uint8Array): void;
  onEnd(): void;
  onError(error: UpstreamFailure): void;
};

/** Control over a running exchange. All three do nothing after its end. */
export type UpstreamExchange = {
  /** Stops reading from the upstream (back-pressure). At most one more onData follows. */
  pause(): void;
  resume(): void;
  /** Ends the exchange and closes its connection. No callback follows. */
  abort(): void;
};

/** How an exchange failed. `refused` means that the upstream has not seen the request. */
export type UpstreamFailure = {
  kind: 'refused' | 'reset' | 'timeout' | 'protocol';
  /** For the log only. */
  message: string;
};

/** Receives what happens on a WebSocket: onOpen, any number of onText, then onClose once. onClose may also come first. */
export type SocketHandler = {
  onOpen(): void;
  onText(text: string): void;
  /** The socket is closed; `reason` is for the log only, and says little of a socket that never opened: a probe says why. */
  onClose(reason: string): void;
};

export type UpstreamSocket = {
  send(text: string): void;
  /** Bytes that wait to be sent. */
  readonly waitingBytes: number;
  /** Closes the socket. No callback follows. */
  close(): void;
};
