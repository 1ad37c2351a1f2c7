import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { selfSignedCertificate } from '../../test/support/certificate.ts';
import { originAt, readEnv } from './env.ts';

let dataDir: string;
let secrets: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'env-'));
  secrets = join(dataDir, 'secrets');
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));
const read = () => readEnv({ DATA_DIR: dataDir });

test('generated secrets stay the same ever after, and nothing else is left of their creation', () => {
  const { keyPeppers, serviceSecrets } = read();
  expect(keyPeppers[0]!.secret).toHaveLength(64);
  expect(read()).toMatchObject({ keyPeppers, serviceSecrets });
  expect(readdirSync(secrets).sort()).toEqual(['key_pepper', 'service_secret']);
});

test.each(['', 'cut'])('a secret of which only %j is left stops the start, instead of counting as none', (left) => {
  mkdirSync(secrets);
  writeFileSync(join(secrets, 'key_pepper'), left);
  expect(read).toThrow(/^KEY_PEPPER in .*key_pepper is shorter than 32 characters/);
});

test('half of RPC_TLS_CERT and RPC_TLS_KEY, or anything but a certificate and its key, stops the start, naming the variable', () => {
  const file = (name: string, text: string): string => {
    writeFileSync(join(dataDir, name), text);
    return join(dataDir, name);
  };
  const [ours, other] = [selfSignedCertificate(), selfSignedCertificate()];
  const withTls = (cert: string, key: string) => () =>
    readEnv({ DATA_DIR: dataDir, RPC_TLS_CERT: cert, RPC_TLS_KEY: key });
  const cert = file('cert.pem', ours.cert);
  const key = file('key.pem', ours.key);
  expect(withTls(cert, key)().rpcTls).toEqual({ cert: ours.cert, key: ours.key });
  const [certText, keyText] = [`# A remark\n${ours.cert.trim()}`, ours.key.trim()];
  expect(withTls(certText, keyText)().rpcTls).toEqual({ cert: certText, key: keyText });
  expect(withTls(cert, '')).toThrow(/^RPC_TLS_KEY is missing/);
  expect(withTls('', key)).toThrow(/^RPC_TLS_CERT is missing/);
  expect(withTls(join(dataDir, 'nothing'), key)).toThrow(/^RPC_TLS_CERT is not valid/);
  // Without a key no handshake would succeed.
  const empty = file('empty.pem', '');
  expect(withTls(empty, key)).toThrow(/^RPC_TLS_CERT is not valid/);
  expect(withTls(cert, empty)).toThrow(/^RPC_TLS_KEY is not valid/);
  expect(withTls(cert, file('other.pem', other.key))).toThrow(
    /^RPC_TLS_CERT and RPC_TLS_KEY are not valid: expected a certificate/,
  );
  const expired = selfSignedCertificate({ untilMs: Date.now() - 1_000 });
  expect(withTls(file('expired.pem', expired.cert), file('expired-key.pem', expired.key))).toThrow(
    /^RPC_TLS_CERT is not valid: expected a certificate that is valid now; this one is valid from .+ to .+ GMT\.$/,
  );
});

const secret = 'a secret for tests that is long enough';

test.each([
  // Headers cannot hold such letters.
  ['https://例え.example', 'https://xn--r8jz45g.example'],
  ['HTTPS://Gateway.Example:443/', 'https://gateway.example'],
  ['http:gateway.example:8080', 'http://gateway.example:8080'],
])('PUBLIC_URL=%s is the origin that clients use: %s', (text, origin) => {
  expect(readEnv({ DATA_DIR: dataDir, PUBLIC_URL: text }).publicUrl).toBe(origin);
});

test('the proxy to upstreams is the one of other programs, with or without its scheme, lower case first', () => {
  const proxyOf = (variables: Record<string, string>) => readEnv({ DATA_DIR: dataDir, ...variables }).forwardProxy;
  expect(proxyOf({ HTTP_PROXY: 'http://other:1', NO_PROXY: 'a.example' })).toBeUndefined();
  expect(proxyOf({ HTTPS_PROXY: 'http://user:pass@one:3128' })).toEqual({
    url: 'http://user:pass@one:3128/',
    except: '',
  });
  // The agent takes only lower case for a scheme that it knows.
  expect(proxyOf({ HTTPS_PROXY: 'HTTP://one:3128' })?.url).toBe('http://one:3128/');
  expect(proxyOf({ HTTPS_PROXY: 'http://one:1', https_proxy: 'two:2', NO_PROXY: 'a', no_proxy: '.b,c' })).toEqual({
    url: 'http://two:2/',
    except: '.b,c',
  });
});

test.each([
  ['PUBLIC_URL', 'https://gateway.example/path'],
  ['PUBLIC_URL', 'https://gateway.example/?a=1'],
  ['PUBLIC_URL', 'https://gateway.example/#a'],
  ['PUBLIC_URL', 'https://user:password@gateway.example'],
  ['UPSTREAM_BASE_URL', 'https://host/v1?api-version=1'],
  ['UPSTREAM_BASE_URL', 'https://user:password@host/v1'],
  ['UPSTREAM_API_KEY', '“sk-of-the-upstream”'],
  ['UPSTREAM_API_KEY', 'sk-one\nsk-two'],
  ['HOST', 'http://0.0.0.0'],
  ['RPC_HOST', '[::1]'],
  ['BOOTSTRAP_PASSWORD', 'seven77'],
  ['HTTPS_PROXY', 'socks5://proxy.internal:1080'],
  ['https_proxy', 'https://proxy.internal'],
  // No agent can be made with it.
  ['HTTPS_PROXY', 'http://user:100%@proxy.internal:3128'],
  ['SMTP_URL', 'smtp://'],
  ['SMTP_URL', 'smtp://mail.example:25?from=nobody'],
  ['KEY_PEPPER', `1:${secret},1:${secret} and another`],
  ['KEY_PEPPER', `${secret},${secret} and another`],
  ['KEY_PEPPER', `99999999999:${secret}`],
  ['KEY_PEPPER', `0:${secret}`],
  ['KEY_PEPPER', [1, 2, 3, 4, 5].map((version) => `${version}:${secret}`).join(',')],
  ['TRUSTED_PROXIES', '0.0.0.0/0'],
  ['TRUSTED_PROXIES', '10.0.0.0/8, ::/0'],
  ['TRUSTED_PROXIES', '::ffff:0.0.0.0/96'],
  ['CLOCK', '12'],
  ['CLOCK', '2026-01-31T12:00:00'],
  ['CLOCK', '2026-02-30'],
  ['CLOCK', '0000-01-01'],
  ['CLOCK', '0206-01-31'],
  ['CLOCK', '9999-12-31'],
  ['CLOCK', '2026-02-30T12:00:00Z'],
  ['RPC_URLS', 'keys=http://a:1,key=http://b:1'],
  ['RPC_URLS', 'keys=http://a:1,auth=http://b:1,keys=http://b:1'],
  ['RPC_URLS', 'keys=http://user:password@a:1'],
  ['RPC_URLS', 'keys=http://a:1?region=eu'],
  ['RPC_URLS', 'keys=http://a:1#keys'],
])('what would fail later stops the start, naming the variable: %s=%s', (name, value) => {
  expect(() => readEnv({ DATA_DIR: dataDir, KEY_PEPPER: secret, SERVICE_SECRET: secret, [name]: value })).toThrow(
    new RegExp(`^${name} is not valid: expected [^\\n]*\\.$`),
  );
});

test('a range of trusted proxies with host bits stops the start, which says what is wrong with it', () => {
  expect(() => readEnv({ DATA_DIR: dataDir, TRUSTED_PROXIES: '10.0.0.1/8' })).toThrow(
    'TRUSTED_PROXIES is not valid: expected IP addresses, or CIDR ranges without host bits such as 10.0.0.0/8, separated by commas.',
  );
});

test.each([
  ['SMTP_URL', 'smtp://user:pass#word@mail.example:587'],
  ['SMTP_URL', 'smtp://user:pass/word@mail.example:587'],
  // To a URL parser the host is `user`, and its port 12.
  ['SMTP_URL', 'smtp://user:12/word@mail.example:587'],
  ['SMTP_URL', 'smtp://user:12#word@mail.example:587'],
  ['DATABASE_URL', 'postgresql://user:pass#word@db.example/gateway'],
  ['HTTPS_PROXY', 'http://user:12/word@proxy.example:3128'],
])(
  'a password with a character that ends the address in a URL stops the start, which says how to write it: %s=%s',
  (name, value) => {
    expect(() => readEnv({ DATA_DIR: dataDir, [name]: value })).toThrow(/^[A-Z_]+ is not valid: expected .*%23.*\.$/);
  },
);

test.each([
  'postgresql://user@a:5432,b:5432/db?target_session_attrs=read-write',
  'postgresql://user@a,b/db',
  'postgresql:///db?user=user&host=/a,/b',
])('a DATABASE_URL with several hosts stops the start, which says that only one is accepted: %s', (url) => {
  expect(() => readEnv({ DATA_DIR: dataDir, DATABASE_URL: url })).toThrow(
    /^DATABASE_URL is not valid: expected a single host; [^\n]*\.$/,
  );
});

test('a comma in a password or the name of a database does not make a list of hosts', () => {
  const url = 'postgresql://user:a,b@host:5432/c,d?application_name=e,f';
  expect(readEnv({ DATA_DIR: dataDir, DATABASE_URL: url }).databaseUrl).toBe(url);
});

test('PGSSLMODE counts if DATABASE_URL has no sslmode, as with libpq', () => {
  const read = (url: string) => readEnv({ DATA_DIR: dataDir, DATABASE_URL: url, PGSSLMODE: 'require' }).databaseUrl;
  const url = 'postgresql://user:a%2Cb@host:5432/db';
  expect(read(url)).toBe(`${url}?sslmode=require`);
  expect(read(`${url}?sslrootcert=/ca`)).toBe(`${url}?sslrootcert=%2Fca&sslmode=require`);
  expect(read(`${url}?sslmode=disable`)).toBe(`${url}?sslmode=disable`);
});

test('origins, senders, peppers and times are accepted as operators write them', () => {
  const env = readEnv({
    DATA_DIR: dataDir,
    PUBLIC_URL: 'https://gateway.example:8443/',
    SMTP_URL: 'smtp://user:pass@mail.example:587?from=Gateway <no-reply@gateway.example>',
    KEY_PEPPER: `2:${secret}, ${secret}`,
    TRUSTED_PROXIES: '10.0.0.0/8, ::ffff:192.0.2.0/120, fd00::/8',
    CLOCK: '2026-01-31T12:00:00+01:00',
  });
  expect(env).toMatchObject({
    publicUrl: 'https://gateway.example:8443',
    keyPeppers: [
      { version: 2, secret },
      { version: 1, secret },
    ],
  });
  expect(Math.abs(env.clock.now() - Date.parse('2026-01-31T11:00:00Z'))).toBeLessThan(60_000);
});

test('an origin has brackets around an IPv6 address, and loopback instead of all addresses', () => {
  expect(originAt('fd00::1', 8_081, 'https')).toBe('https://[fd00::1]:8081');
  expect(['0.0.0.0', '::'].map((host) => originAt(host, 80))).toEqual(['http://127.0.0.1:80', 'http://127.0.0.1:80']);
  expect(readEnv({ DATA_DIR: dataDir, HOST: '::1' }).publicUrl).toBe('http://[::1]:8080');
});

test('what `echo` or a mounted file adds around a value is not part of it', () => {
  const given = {
    PUBLIC_URL: 'https://gateway.example',
    UPSTREAM_BASE_URL: 'https://host/v1',
    UPSTREAM_API_KEY: 'sk-of-the-upstream',
    BOOTSTRAP_PASSWORD: 'Correct-horse-1',
    PAYMENT_WEBHOOK_SECRET: secret,
    SERVICE_SECRET: secret,
  };
  const around = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, ` ${value}\r\n`]));
  expect(readEnv({ DATA_DIR: dataDir, ...around })).toMatchObject({
    publicUrl: given.PUBLIC_URL,
    upstreamBaseUrl: given.UPSTREAM_BASE_URL,
    upstreamApiKey: given.UPSTREAM_API_KEY,
    bootstrapPassword: given.BOOTSTRAP_PASSWORD,
    paymentWebhookSecret: secret,
    serviceSecrets: [secret],
  });
  expect(readEnv({ DATA_DIR: dataDir, UPSTREAM_API_KEY: '\n' }).upstreamApiKey).toBeUndefined();
});

test('production counts in capitals too', () => {
  expect(() => readEnv({ DATA_DIR: dataDir, NODE_ENV: 'Production' })).toThrow(/^KEY_PEPPER is required/);
});

test('a command asks only for the secrets that it needs', () => {
  const given = { DATA_DIR: dataDir, NODE_ENV: 'production', SERVICE_SECRET: secret };
  expect(readEnv(given, ['SERVICE_SECRET'])).toMatchObject({ serviceSecrets: [secret], keyPeppers: [] });
  expect(() => readEnv({ ...given, SERVICE_SECRET: '' }, ['SERVICE_SECRET'])).toThrow(/^SERVICE_SECRET is required/);
  expect(readEnv({ DATA_DIR: dataDir }, []).serviceSecrets).toEqual([]);
  expect(readdirSync(dataDir)).toEqual([]);
});

test('unset variables have the defaults of the README', () => {
  expect(read()).toMatchObject({
    port: 8_080,
    host: '127.0.0.1',
    rpcPort: 8_081,
    rpcHost: '127.0.0.1',
    publicUrl: 'http://127.0.0.1:8080',
    bootstrapEmail: 'owner@example.com',
    trustedProxies: [],
    logLevel: 'info',
    journalSync: 'group',
    workers: 1,
    keepAliveMs: 75_000,
    shutdownDelayMs: 5_000,
    production: false,
  });
});

test('no secret is generated in production: each missing one is named', () => {
  const production = (given: object) => () => readEnv({ DATA_DIR: dataDir, NODE_ENV: 'production', ...given });
  expect(production({ SERVICE_SECRET: secret })).toThrow(/^KEY_PEPPER is required/);
  expect(production({ KEY_PEPPER: secret })).toThrow(/^(SERVICE_SECRET|JWT_PRIVATE_KEY) is required/);
  expect(production({ KEY_PEPPER: secret, SERVICE_SECRET: secret })).toThrow(/^JWT_PRIVATE_KEY is required/);
  expect(readdirSync(dataDir)).toEqual([]);
});
