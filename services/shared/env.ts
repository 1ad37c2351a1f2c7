import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { isBareUrl, plainBaseUrl } from './bare-url.ts';
import { parseRange } from './cidr.ts';
import { type Clock, clockStartingAt, systemClock } from './clock.ts';
import { type KeyPepper, readPeppers, readPrivateKey, readSecret, readWebhookSecret } from './env/secrets.ts';
import { badVariable, encodedPassword, listOf, readChoice, readInteger, readUrl, type Source } from './env/values.ts';
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
  /** The one in use first: it makes new digests; all of them are looked up. */
  keyPeppers: readonly KeyPepper[];
  /** PKCS #8 PEM of an Ed25519 key that signs sessions; undefined: Auth keeps its own. */
  jwtPrivateKey: string | undefined;
  /** The one in use first: it signs service tokens; all of them verify. */
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

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

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
    upstreamApiKey: readUpstreamApiKey(source),
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

/** The rest of a model call's path is appended to it. */
function readUpstreamUrl(source: Source): string | undefined {
  const text = readUrl(source, 'UPSTREAM_BASE_URL', ['http:', 'https:']);
  if (text === undefined) return undefined;
  if (!isBareUrl(text)) {
    throw badVariable(
      'UPSTREAM_BASE_URL',
      'a URL without user name, password, query or fragment, such as http://127.0.0.1:8000/v1',
    );
  }
  return plainBaseUrl(text);
}

function readUpstreamApiKey(source: Source): string | undefined {
  const text = source.UPSTREAM_API_KEY || undefined;
  if (text !== undefined && !/^[\x20-\x7e\x80-\xff]+$/.test(text))
    throw badVariable('UPSTREAM_API_KEY', 'a key that a header can hold: one line, without typographic quotes');
  return text;
}

/** libpq accepts several hosts separated by commas and tries each; pg accepts one. */
function readDatabaseUrl(source: Source): string | undefined {
  // Checked as text, since the URL parser refuses several ports.
  const hosts = /^[^:]*:\/\/(?:[^/?#]*@)?([^/?#]*)|[?&]host=([^&#]*)/g;
  for (const [, authority = '', parameter = ''] of (source.DATABASE_URL ?? '').matchAll(hosts)) {
    if (/,|%2c/i.test(authority + parameter))
      throw badVariable(
        'DATABASE_URL',
        'a single host; if there are several servers, one whose address follows the primary',
      );
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
    throw badVariable('PUBLIC_URL', 'an origin without a path, such as https://gateway.example.com');
  return origin;
}

function readHost(source: Source, name: string): string {
  const text = source[name] || '127.0.0.1';
  if (!URL.canParse(originAt(text, 0))) throw badVariable(name, 'an IP address or a host name');
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
    throw badVariable(name, `the URL of a proxy, such as http://proxy.internal:3128${encodedPassword}`);
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
  if (pathname.length > 1 || hash !== '') throw badVariable('SMTP_URL', `a URL without a path${encodedPassword}`);
  if (hostname === '')
    throw badVariable('SMTP_URL', 'a URL with a host, such as smtp://user:password@mail.example.com:587');
  const from = searchParams.get('from');
  if (from !== null && !/^([^<>]*<[^\s@<>]+@[^\s@<>]+>|[^\s@<>]+@[^\s@<>]+)$/.test(from))
    throw badVariable('SMTP_URL', 'an email address after `?from=`');
  return text;
}

function readBootstrapEmail(source: Source): string {
  const text = source.BOOTSTRAP_EMAIL || 'owner@example.com';
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(text)) throw badVariable('BOOTSTRAP_EMAIL', 'an email address');
  return text.toLowerCase();
}

/** The bounds are those of Auth's BootstrapRequest. */
function readBootstrapPassword(source: Source): string | undefined {
  const text = source.BOOTSTRAP_PASSWORD || undefined;
  if (text !== undefined && ([...text].length < 8 || Buffer.byteLength(text) > 1024))
    throw badVariable('BOOTSTRAP_PASSWORD', 'a password of at least 8 characters and at most 1,024 bytes');
  return text;
}

function readTrustedProxies(source: Source): string[] {
  const entries = listOf(source.TRUSTED_PROXIES);
  const ranges = entries.map(parseRange);
  if (ranges.includes(null)) {
    throw badVariable(
      'TRUSTED_PROXIES',
      'IP addresses, or CIDR ranges without host bits such as 10.0.0.0/8, separated by commas',
    );
  }
  // A trusted proxy decides which address is checked against a key's allowlist.
  if (ranges.some((range) => range!.prefix === 0)) {
    throw badVariable('TRUSTED_PROXIES', 'the ranges of your own proxies, not every address');
  }
  return entries;
}

function readClock(source: Source): Clock {
  const text = source.CLOCK || 'system';
  if (text === 'system') return systemClock;
  // Date.parse takes `12` for a month of 2001, and 30 February for 2 March.
  const startMs = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(text) ? Date.parse(text) : Number.NaN;
  // Postgres knows no year 0, and a session that began late in 9999 would end in a year of five digits.
  const isInRange = startMs >= Date.parse('1970-01-01') && startMs < Date.parse('9999-01-01');
  if (!isInRange || new Date(text.slice(0, 10)).getUTCDate() !== Number(text.slice(8, 10))) {
    throw badVariable(
      'CLOCK',
      '`system` or an ISO 8601 time with its zone, such as 2026-01-31T12:00:00Z, from 1970 to 9998',
    );
  }
  return clockStartingAt(startMs);
}

function readRpcUrls(source: Source): ReadonlyMap<string, string> {
  const urls = new Map<string, string>();
  for (const entry of listOf(source.RPC_URLS)) {
    const match = /^([a-z]+)=(https?:\/\/\S+?)\/?$/.exec(entry);
    if (match === null || !URL.canParse(match[2]!))
      throw badVariable('RPC_URLS', 'a list such as keys=http://10.0.0.5:8081,auth=https://auth:8081');
    if (!isBareUrl(match[2]!)) throw badVariable('RPC_URLS', 'URLs without user name, password, query or fragment');
    if (!rpcNames.includes(match[1]!) || urls.has(match[1]!))
      throw badVariable('RPC_URLS', `only the names ${rpcNames.join(', ')}, each at most once`);
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
    throw badVariable(
      'RPC_TLS_CERT',
      `a certificate that is valid now; this one is valid from ${validFrom} to ${validTo}`,
    );
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
  if (pem === '') throw badVariable(name, 'the path of a file that is not empty');
  return pem;
}
