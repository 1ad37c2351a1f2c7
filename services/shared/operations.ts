import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Scope } from './scopes.ts';

/** The operations of the enum; the generated type also allows unknown numbers. */
export type KnownOperation = Exclude<(typeof Operation)[keyof typeof Operation], typeof Operation.UNSPECIFIED>;

/** What clients send: one request in JSON, one form with a file, or the events of a session. */
type Sent = 'json' | 'form' | 'events';

type Row = readonly [path: string, sent: Sent, scope: Scope];

/**
 * What the whole gateway knows of each operation: its path below `/v1`, at the gateway and at upstreams; what is sent; and the scope that a
 * key needs (service.md, Inference endpoints). An operation without a row does not compile.
 */
const rows = {
  [Operation.CHAT_COMPLETIONS]: ['/chat/completions', 'json', 'inference:chat'],
  [Operation.COMPLETIONS]: ['/completions', 'json', 'inference:completions'],
  [Operation.EMBEDDINGS]: ['/embeddings', 'json', 'inference:embeddings'],
  [Operation.IMAGES_GENERATIONS]: ['/images/generations', 'json', 'inference:images'],
  [Operation.AUDIO_TRANSCRIPTIONS]: ['/audio/transcriptions', 'form', 'inference:audio'],
  [Operation.AUDIO_TRANSLATIONS]: ['/audio/translations', 'form', 'inference:audio'],
  [Operation.AUDIO_SPEECH]: ['/audio/speech', 'json', 'inference:audio'],
  [Operation.REALTIME_TRANSCRIPTION]: ['/realtime', 'events', 'inference:audio'],
} as const satisfies Readonly<Record<KnownOperation, Row>>;

/** The operations for which this is sent. */
export type OperationSending<What extends Sent> = {
  [Each in KnownOperation]: (typeof rows)[Each][1] extends What ? Each : never;
}[KnownOperation];

/** Messages with any other operation are refused before they are read. */
const rowOf = (operation: Operation): Row => rows[operation as KnownOperation];

/** The path of an operation below a base URL. */
export const pathOf = (operation: Operation): string => rowOf(operation)[0];

/** The endpoint under which an operation is metered and shown, whichever prefix the client used (service.md, Endpoints). */
export const endpointOf = (operation: Operation): string => `/v1${pathOf(operation)}`;

/** The scope that a key needs for an operation. */
export const scopeOf = (operation: Operation): Scope => rowOf(operation)[2];

/** Whether an operation takes a form with a file. */
export const takesForm = (operation: Operation): operation is OperationSending<'form'> =>
  rowOf(operation)[1] === 'form';

/** The operations for which this is sent, by path. */
export const operationsByPath = <What extends Sent>(
  ...sent: readonly What[]
): ReadonlyMap<string, OperationSending<What>> =>
  new Map(
    Object.entries(rows)
      .filter(([, row]) => (sent as readonly Sent[]).includes(row[1]))
      .map(([operation, row]) => [row[0], Number(operation) as OperationSending<What>]),
  );

/** An operation's name in the public API: that of its enum value in lower case, e.g. `chat_completions`. */
export type OperationName = Lowercase<Exclude<keyof typeof Operation, 'UNSPECIFIED'>>;

/** The operations by their names in the public API. */
export const operationsByName = Object.fromEntries(
  Object.entries(Operation)
    .filter(([, operation]) => operation !== Operation.UNSPECIFIED)
    .map(([name, operation]) => [name.toLowerCase(), operation]),
) as Readonly<Record<OperationName, KnownOperation>>;

const names = new Map<Operation, string>(
  Object.entries(operationsByName).map(([name, operation]) => [operation, name]),
);

/** The name of an operation. */
export const operationName = (operation: Operation): string => names.get(operation) ?? 'unspecified';
