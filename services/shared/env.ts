import { randomBytes, randomUUID, X509Certificate } from 'node:crypto';
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { isBareUrl, plainBaseUrl } from './bare-url.ts';
import { parseRange } from './cidr.ts';
import { type Clock, clockStartingAt, systemClock } from './clock.ts';
import { makeFolder } from './make-folder.ts';
import { rpcNames } from './service-names.ts';
import { StartError } from './start-error.ts';

/** The whole configuration of a process. README.md (Configuration) explains each variable. */
export type Env = {
  port: number;
  host: string;
  rpcPort: number;
  rpcHost: string;
  /** The certificate and key with which services answer other processes over TLS, as PEM; undefined: clear text (h2c). */
  rpcTls: { cert: string; key: string } | undefined;
  /** Where a process without an edge shows its health and metrics; undefined: nowhere. */
  metricsPort: number | undefined;
  /** Where each service in another process answers; empty in the one-process mode. */
  rpcUrls: ReadonlyMap<string, string>;
  /** Undefined: the embedded Postgres under `dataDir`. */
  databaseUrl: string | undefined;
  dataDir: string;
  /** The origin that clients use, without a trailing slash; links in mails and headers start with it. */
  publicUrl: string;
  bootstrapEmail: string;
  /** Undefined: one is generated at the first start and printed once. */
  bootstrapPassword: string | undefined;
  upstreamBaseUrl: string | undefined;
  upstreamApiKey: string | undefined;
  /** All variables whose names begin with UPSTREAM_: deployments may refer to them as secrets. */
  upstreamSecrets: Readonly<Record<string, string | undefined>>;
  /** Through which upstreams that speak TLS are reached, and which of them directly; undefined: all directly. */
  forwardProxy: { url: string; except: string } | undefined;
  smtpUrl: string | undefined;
  /** Signs the payment provider's webhooks; undefined: none are accepted. */
  paymentWebhookSecret: string | undefined;
  /** Newest first; the first makes new digests, all of them are looked up. */
  keyPeppers: readonly KeyPepper[];
  /** PKCS #8 PEM of an Ed25519 key that signs sessions; undefined: Auth keeps its own. */
  jwtPrivateKey: string | undefined;
  /** Newest first; the first signs service tokens, all of them verify. */
  serviceSecrets: readonly string[];
  /** Addresses or CIDR ranges whose X-Forwarded-For is believed. */
  trustedProxies: readonly string[];
  logLevel: string;
  journalSync: 'group' | 'always';
  workers: number;
  /** How long an edge waits for the next request on a client's connection. */
  keepAliveMs: number;
  /** How long a process goes on, as not ready, after SIGTERM, so that load balancers notice. */
  shutdownDelayMs: number;
  clock: Clock;
  production: boolean;
};

/** A pepper of API key digests; each digest's row has its version. */
export type KeyPepper = { version: number; secret: string };

type Source = Readonly<Record<string, string | undefined>>;

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** The shortest accepted secret, in characters; 32 random bytes in hex are 64. */
const secretLengthMin = 32;

export const secretNames = ['KEY_PEPPER', 'SERVICE_SECRET', 'JWT_PRIVATE_KEY'] as const;
export type SecretName = (typeof secretNames)[number];

/**
 * Reads and checks the environment once. A bad value throws a StartError that names the variable. The `secretsNeeded` must be set in
 * production. Elsewhere missing ones are kept in DATA_DIR, and generated there unless `generates` is false, as for programs whose secret has
 * to be the gateway's. Other missing secrets stay empty.
 */
export function readEnv(
  given: Source,
  secretsNeeded: readonly SecretName[] = secretNames,
  { generates = true } = {},
): Env {
  // Mounted files and `echo` end with a newline.
  const source: Source = Object.fromEntries(Object.entries(given).map(([name, text]) => [name, text?.trim()]));
  const production = source.NODE_ENV?.toLowerCase() === 'production';
  const dataDir = resolve(source.DATA_DIR || '.data');
  const secret = (name: SecretName): string =>
    source[name] || secretsNeeded.includes(name) ? readSecret(source, name, { dataDir, production, generates }) : '';

  const host = readHost(source, 'HOST');
  const port = readInteger(source, 'PORT', { fallback: 8080, min: 0, max: 65_535 });
  return {
    port,
    host,
    rpcPort: readInteger(source, 'RPC_PORT', { fallback: 8081, min: 0, max: 65_535 }),
    rpcHost: readHost(source, 'RPC_HOST'),
    rpcTls: readRpcTls(source),
    metricsPort: source.METRICS_PORT
      ? readInteger(source, 'METRICS_PORT', { fallback: 0, min: 0, max: 65_535 })
      : undefined,
    rpcUrls: readRpcUrls(source),
    databaseUrl: readDatabaseUrl(source),
    dataDir,
    publicUrl: readPublicUrl(source) ?? originAt(host, port),
    bootstrapEmail: readBootstrapEmail(source),
    bootstrapPassword: readBootstrapPassword(source),
    upstreamBaseUrl: readUpstreamUrl(source),
    upstreamApiKey: source.UPSTREAM_API_KEY || undefined,
    upstreamSecrets: Object.fromEntries(Object.entries(source).filter(([name]) => name.startsWith('UPSTREAM_'))),
    forwardProxy: readForwardProxy(source),
    smtpUrl: readSmtpUrl(source),
    paymentWebhookSecret: readWebhookSecret(source),
    keyPeppers: readPeppers(secret('KEY_PEPPER')),
    jwtPrivateKey: readPrivateKey(source, production && secretsNeeded.includes('JWT_PRIVATE_KEY')),
    serviceSecrets: listOf(secret('SERVICE_SECRET')),
    trustedProxies: readTrustedProxies(source),
    logLevel: readChoice(source, 'LOG_LEVEL', logLevels, 'info'),
    journalSync: readChoice(source, 'JOURNAL_SYNC', ['group', 'always'], 'group'),
    workers: readInteger(source, 'WORKERS', { fallback: 1, min: 1, max: 64 }),
    keepAliveMs: readInteger(source, 'KEEP_ALIVE_SECONDS', { fallback: 75, min: 1, max: 3_600 }) * 1_000,
    shutdownDelayMs: readInteger(source, 'SHUTDOWN_DELAY_SECONDS', { fallback: 5, min: 0, max: 3_600 }) * 1_000,
    clock: readClock(source),
    production,
  };
}

/** The entries of a list with commas between them. */
const listOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');

const bad = (name: string, expected: string): StartError =>
  new StartError(`${name} is not valid: expected ${expected}.`);

type IntegerRange = { fallback: number; min: number; max: number };

function readInteger(source: Source, name: string, { fallback, min, max }: IntegerRange): number {
  const text = source[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max) throw bad(name, `a whole number from ${min} to ${max}`);
  return value;
}

function readChoice<Choice extends string>(
  source: Source,
  name: string,
  choices: readonly Choice[],
  fallback: Choice,
): Choice {
  const text = source[name] || fallback;
  const choice = choices.find((one) => one === text);
  if (choice === undefined) throw bad(name, `one of ${choices.join(', ')}`);
  return choice;
}

/** In a URL such a character ends the host and port. */
const encodedPassword = ', with `#`, `/`, `?` and `%` in a password written as `%23`, `%2F`, `%3F` and `%25`';

function readUrl(source: Source, name: string, protocols: readonly string[]): string | undefined {
  const text = source[name];
  if (text === undefined || text === '') return undefined;
  if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol)) {
    const starts = `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
    throw bad(name, text.includes('@') ? `${starts}${encodedPassword}` : starts);
  }
  return text;
}

/** The rest of a model call's path is appended to it. */
function readUpstreamUrl(source: Source): string | undefined {
  const text = readUrl(source, 'UPSTREAM_BASE_URL', ['http:', 'https:']);
  if (text === undefined) return undefined;
  if (!isBareUrl(text)) {
    throw bad(
      'UPSTREAM_BASE_URL',
      'a URL without user name, password, query or fragment, such as http://127.0.0.1:8000/v1',
    );
  }
  return plainBaseUrl(text);
}

/** libpq accepts several hosts separated by commas and tries each; pg accepts one. */
function readDatabaseUrl(source: Source): string | undefined {
  // Checked as text, since the URL parser refuses several ports.
  const hosts = /^[^:]*:\/\/(?:[^/?#]*@)?([^/?#]*)|[?&]host=([^&#]*)/g;
  for (const [, authority = '', parameter = ''] of (source.DATABASE_URL ?? '').matchAll(hosts)) {
    if (/,|%2c/i.test(authority + parameter))
      throw bad('DATABASE_URL', 'a single host; if there are several servers, one whose address follows the primary');
  }
  const text = readUrl(source, 'DATABASE_URL', ['postgres:', 'postgresql:']);
  if (text === undefined || !source.PGSSLMODE) return text;
  // pg reads the variable itself, and treats `require` as `verify-full`.
  const url = new URL(text);
  if (!url.searchParams.get('sslmode')) url.searchParams.set('sslmode', source.PGSSLMODE);
  return url.href;
}

/** A URL without path, query and user, for links and the issuer of tokens, spelled as browsers and headers do; without a trailing slash. */
function readPublicUrl(source: Source): string | undefined {
  const text = readUrl(source, 'PUBLIC_URL', ['http:', 'https:'])?.replace(/\/+$/, '');
  if (text === undefined) return undefined;
  const { origin, pathname, search, hash, username, password } = new URL(text);
  if (pathname !== '/' || search + hash + username + password !== '' || /[?#@]/.test(text))
    throw bad('PUBLIC_URL', 'an origin without a path, such as https://gateway.example.com');
  return origin;
}

function readHost(source: Source, name: string): string {
  const text = source[name] || '127.0.0.1';
  if (!URL.canParse(originAt(text, 0))) throw bad(name, 'an IP address or a host name');
  return text;
}

/** Where clients on this machine reach a listener; one that listens on all addresses, at the loopback address. */
export const originAt = (host: string, port: number, scheme: 'http' | 'https' = 'http'): string =>
  `${scheme}://${urlHost(host)}:${port}`;

const urlHost = (host: string): string =>
  host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;

/** The variables that other programs read, in either case. */
function readForwardProxy(source: Source) {
  const text = source.https_proxy || source.HTTPS_PROXY;
  if (!text) return undefined;
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url?.protocol !== 'http:' || url.pathname + url.search + url.hash !== '/' || !isDecodable(url)) {
    const name = source.https_proxy ? 'https_proxy' : 'HTTPS_PROXY';
    throw bad(name, `the URL of a proxy, such as http://proxy.internal:3128${encodedPassword}`);
  }
  return { url: url.href, except: source.no_proxy || source.NO_PROXY || '' };
}

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}:${password}`);
    return true;
  } catch {
    return false;
  }
}

function readSmtpUrl(source: Source): string | undefined {
  const text = readUrl(source, 'SMTP_URL', ['smtp:', 'smtps:']);
  if (text === undefined) return undefined;
  const { hostname, pathname, hash, searchParams } = new URL(text);
  if (pathname.length > 1 || hash !== '') throw bad('SMTP_URL', `a URL without a path${encodedPassword}`);
  if (hostname === '') throw bad('SMTP_URL', 'a URL with a host, such as smtp://user:password@mail.example.com:587');
  const from = searchParams.get('from');
  if (from !== null && !/^([^<>]*<[^\s@<>]+@[^\s@<>]+>|[^\s@<>]+@[^\s@<>]+)$/.test(from))
    throw bad('SMTP_URL', 'an email address after `?from=`');
  return text;
}

function readBootstrapEmail(source: Source): string {
  const text = source.BOOTSTRAP_EMAIL || 'owner@example.com';
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(text)) throw bad('BOOTSTRAP_EMAIL', 'an email address');
  return text.toLowerCase();
}

/** The bounds are those of Auth's BootstrapRequest. */
function readBootstrapPassword(source: Source): string | undefined {
  const text = source.BOOTSTRAP_PASSWORD || undefined;
  if (text !== undefined && ([...text].length < 8 || Buffer.byteLength(text) > 1024))
    throw bad('BOOTSTRAP_PASSWORD', 'a password of at least 8 characters and at most 1,024 bytes');
  return text;
}

function readTrustedProxies(source: Source): string[] {
  const entries = listOf(source.TRUSTED_PROXIES);
  if (entries.some((entry) => parseRange(entry) === null)) {
    throw bad('TRUSTED_PROXIES', 'IP addresses and CIDR ranges, separated by commas');
  }
  // A trusted proxy decides which address is checked against a key's allowlist.
  if (entries.some((entry) => entry.endsWith('/0'))) {
    throw bad('TRUSTED_PROXIES', 'the ranges of your own proxies, not every address');
  }
  return entries;
}

function readClock(source: Source): Clock {
  const text = source.CLOCK || 'system';
  if (text === 'system') return systemClock;
  // Date.parse takes `12` for a month of 2001, and 30 February for 2 March.
  const startMs = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(startMs) || new Date(text.slice(0, 10)).getUTCDate() !== Number(text.slice(8, 10))) {
    throw bad('CLOCK', '`system` or an ISO 8601 time with its zone, such as 2026-01-31T12:00:00Z');
  }
  return clockStartingAt(startMs);
}

function readRpcUrls(source: Source): ReadonlyMap<string, string> {
  const urls = new Map<string, string>();
  for (const entry of listOf(source.RPC_URLS)) {
    const match = /^([a-z]+)=(https?:\/\/\S+?)\/?$/.exec(entry);
    if (match === null || !URL.canParse(match[2]!))
      throw bad('RPC_URLS', 'a list such as keys=http://10.0.0.5:8081,auth=https://auth:8081');
    if (!isBareUrl(match[2]!)) throw bad('RPC_URLS', 'URLs without user name, password, query or fragment');
    if (!rpcNames.includes(match[1]!) || urls.has(match[1]!))
      throw bad('RPC_URLS', `only the names ${rpcNames.join(', ')}, each at most once`);
    urls.set(match[1]!, match[2]!);
  }
  return urls;
}

function readRpcTls(source: Source): Env['rpcTls'] {
  if (!source.RPC_TLS_CERT && !source.RPC_TLS_KEY) return undefined;
  const [cert, key] = [readPem(source, 'RPC_TLS_CERT'), readPem(source, 'RPC_TLS_KEY')];
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    throw new StartError('RPC_TLS_CERT and RPC_TLS_KEY are not valid: expected a certificate and its key in PEM.', {
      cause,
    });
  }
  const { validFrom, validTo } = new X509Certificate(cert);
  // Callers check it by the machine's clock too.
  if (Date.now() < Date.parse(validFrom) || Date.now() > Date.parse(validTo))
    throw bad('RPC_TLS_CERT', `a certificate that is valid now; this one is valid from ${validFrom} to ${validTo}`);
  return { cert, key };
}

/** The variable holds the path of a file or, as where WORKERS are given what was read before, PEM itself. */
function readPem(source: Source, name: string): string {
  const given = source[name];
  if (!given) throw new StartError(`${name} is missing: set both RPC_TLS_CERT and RPC_TLS_KEY, or neither.`);
  // Remarks may precede it.
  if (given.includes('-----BEGIN ')) return given;
  let pem: string;
  try {
    pem = readFileSync(given, 'utf8');
  } catch (cause) {
    throw new StartError(`${name} is not valid: expected the path of a file that can be read.`, { cause });
  }
  // OpenSSL would accept it as no certificate at all.
  if (pem === '') throw bad(name, 'the path of a file that is not empty');
  return pem;
}

function readPrivateKey(source: Source, isRequired: boolean): string | undefined {
  const text = source.JWT_PRIVATE_KEY?.replaceAll('\\n', '\n');
  if (text === undefined || text === '') {
    if (isRequired)
      throw new StartError(
        'JWT_PRIVATE_KEY is required with NODE_ENV=production: an Ed25519 private key in PKCS #8 PEM, as from openssl genpkey -algorithm ed25519.',
      );
    return undefined;
  }
  if (!text.includes('-----BEGIN PRIVATE KEY-----'))
    throw bad('JWT_PRIVATE_KEY', 'an Ed25519 private key in PKCS #8 PEM');
  return text;
}

function readWebhookSecret(source: Source): string | undefined {
  const text = source.PAYMENT_WEBHOOK_SECRET;
  if (text === undefined || text === '') return undefined;
  // Generated by the provider, whose secrets are at least this long.
  if (text.length < 16)
    throw bad('PAYMENT_WEBHOOK_SECRET', "the payment provider's signing secret, of at least 16 characters");
  return text;
}

type SecretOptions = { dataDir: string; production: boolean; generates: boolean };

function readSecret(source: Source, name: string, { dataDir, production, generates }: SecretOptions): string {
  const text = source[name];
  if (text !== undefined && text !== '') {
    for (const part of text.split(',')) {
      if (part.replace(/^\d+:/, '').trim().length < secretLengthMin)
        throw bad(name, `secrets of at least ${secretLengthMin} characters`);
    }
    return text;
  }
  if (production)
    throw new StartError(
      `${name} is required with NODE_ENV=production: at least ${secretLengthMin} random characters, as from openssl rand -hex 32.`,
    );
  const file = join(dataDir, 'secrets', name.toLowerCase());
  if (!existsSync(file)) {
    if (!generates)
      throw new StartError(
        `${name} is missing, and so is ${file}: set it to the gateway's, or DATA_DIR to where it keeps its own.`,
      );
    createSecret(file, name);
  }
  const kept = readFileSync(file, 'utf8');
  // A start may have been cut off while writing it; an empty secret would be one that everybody knows.
  if (kept.length < secretLengthMin)
    throw new StartError(
      `${name} in ${file} is shorter than ${secretLengthMin} characters: restore the file, or remove it to have a new one generated.`,
    );
  return kept;
}

function createSecret(file: string, name: string): void {
  const draft = `${file}-${randomUUID()}`;
  try {
    makeFolder(join(file, '..'), 0o700);
    writeFileSync(draft, randomBytes(32).toString('hex'), { mode: 0o600, flag: 'wx' });
    try {
      // In one step, so that nobody reads a part of it.
      linkSync(draft, file);
    } finally {
      rmSync(draft);
    }
  } catch (error) {
    // Another process with the same DATA_DIR was faster: its secret counts.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `${name} cannot be kept in ${file} (${code}): make DATA_DIR a folder that this user may write, or set ${name}.`,
      { cause: error },
    );
  }
}

/** The largest `integer` of Postgres, which keeps the version beside each digest. */
const pepperVersionMax = 2 ** 31 - 1;

function readPeppers(text: string): readonly KeyPepper[] {
  const peppers = listOf(text).map((part) => {
    const match = /^(\d+):(.+)$/.exec(part);
    return match === null ? { version: 1, secret: part } : { version: Number(match[1]), secret: match[2]! };
  });
  const versions = new Set(peppers.map(({ version }) => version));
  // If two had the same version, the keys made under the second would not be recognised.
  if (versions.size < peppers.length || versions.has(0) || Math.max(...versions) > pepperVersionMax) {
    throw bad('KEY_PEPPER', `a list of version:secret, with different versions from 1 to ${pepperVersionMax}`);
  }
  return peppers;
}
