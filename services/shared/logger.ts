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
const secretPaths = secretFields.flatMap((field) => [
  `["${field}"]`,
  `*["${field}"]`,
  `*.*["${field}"]`,
  `["${field[0]!.toUpperCase()}${field.slice(1)}"]`,
]);

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
      redact: { paths: secretPaths, censor: '[removed]' },
      serializers: { err: namedPart },
      hooks: { streamWrite: withoutSecrets },
    },
    options.destination ?? pino.destination({ fd: 2, sync: true }),
  );
}
