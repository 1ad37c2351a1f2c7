import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

/** Fields that may hold a secret, wherever they stand in a log line. */
const secretFields = [
  'authorization',
  'cookie',
  'password',
  'token',
  'access_token',
  'refresh_token',
  'key',
  'secret',
  'apiKey',
  'api_key',
];
const secretNames: ReadonlySet<string> = new Set(secretFields.map((field) => field.toLowerCase()));
const removed = '[removed]';

/** For the fields of a child, which pass no formatter. */
const serializersOfSecrets = Object.fromEntries(
  secretFields
    .flatMap((field) => [field, `${field[0]!.toUpperCase()}${field.slice(1)}`])
    .map((field) => [field, () => removed]),
);

/** How far below a line's own fields secrets are looked for. */
const depthMax = 3;

/**
 * The fields without secrets in them, or in what they hold; copied where there is one. pino's own redaction follows each path through
 * each line, which took nine tenths of the line's time.
 */
function redacted<Fields extends object>(fields: Fields, depth = depthMax): Fields {
  let copy: Record<string, unknown> | undefined;
  for (const [name, value] of Object.entries(fields)) {
    const kept = secretNames.has(name.toLowerCase()) ? removed : redactedWithin(name, value, depth);
    if (kept === value) continue;
    copy ??= (Array.isArray(fields) ? [...fields] : { ...fields }) as Record<string, unknown>;
    copy[name] = kept;
  }
  return (copy as Fields | undefined) ?? fields;
}

function redactedWithin(name: string, value: unknown, depth: number): unknown {
  // Of an error its serializer takes what names it, and knows it by its class.
  if (typeof value !== 'object' || value === null || depth === 0 || name === 'err') return value;
  return redacted(value, depth - 1);
}

/** Issued secrets have recognisable prefixes; should one reach a message or a stack, it is cut there. */
const issuedSecret = /\b(sk-proj-[A-Za-z0-9]{4})[A-Za-z0-9]+|\b(ek_[\w-]{4})[\w-]+|\beyJ[\w-]+\.[\w-]+\.[\w-]*/g;

/** Removes issued secrets from a text, keeping enough of a key to recognise it. */
const withoutSecrets = (text: string): string =>
  text.replace(issuedSecret, (_match, key?: string, ephemeral?: string) => `${key ?? ephemeral ?? 'jwt'}[removed]`);

/** What of an error names it and says where it happened. Drivers hang on more: connections, and the values of statements that they run. */
const namingFields = ['type', 'message', 'stack', 'code', 'errno', 'syscall', 'constraint', 'aggregateErrors'];

function namedPart(error: Error): unknown {
  const all: unknown = pino.stdSerializers.err(error);
  if (typeof all !== 'object' || all === null) return all;
  return Object.fromEntries(Object.entries(all).filter(([name]) => namingFields.includes(name)));
}

/** A JSON logger that writes one line per event and no secrets. */
export function createLogger(options: { level: string; name: string; destination?: DestinationStream }): Logger {
  return pino(
    {
      name: options.name,
      level: options.level,
      base: { name: options.name, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { log: redacted },
      serializers: { ...serializersOfSecrets, err: namedPart },
      hooks: { streamWrite: withoutSecrets },
    },
    options.destination ?? pino.destination({ fd: 2, sync: true }),
  );
}
