import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { createLogger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { findPostgresBinaries } from './embedded/binaries.ts';
import { findProcess } from './embedded/processes.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded.ts';

const program = join(import.meta.dirname, '../../../test/support/embedded-gateway.ts');
const patience = { timeout: 60_000, interval: 20 };

let folder: string;
let dataDir: string;
let running: EmbeddedPostgres | undefined;
let gateway: ChildProcess | undefined;

// The tests continue with each other's data, like the starts of one installation.
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mg-embedded-'));
  chmodSync(folder, 0o755);
  dataDir = join(folder, 'data');
  const { url } = await start();
  await query(url, 'create table kept (text text)');
  await query(url, "insert into kept values ('first start')");
  await running!.stop();
});

afterEach(async () => {
  if (gateway !== undefined && gateway.exitCode === null && gateway.signalCode === null) {
    gateway.kill('SIGTERM');
    await once(gateway, 'exit');
  }
  gateway = undefined;
  await running?.stop();
  running = undefined;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = async (path = dataDir): Promise<EmbeddedPostgres> => {
  running = await startEmbeddedPostgres({ dataDir: path, logger, fast: true });
  return running;
};

/** Starts a gateway process; without setpriv Postgres survives its death, as on macOS. */
async function startGateway(options: {
  setpriv: boolean;
  stderr?: 'pipe';
}): Promise<{ url: string; postgresPid: number }> {
  gateway = spawn(process.execPath, [program, dataDir], {
    env: options.setpriv ? process.env : { ...process.env, PATH: '/nonexistent' },
    stdio: ['ignore', 'pipe', options.stderr ?? 'inherit'],
  });
  for await (const line of createInterface({ input: gateway.stdout! })) return JSON.parse(line);
  throw new Error('The gateway ended instead of starting');
}

async function query(url: string, statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

const keptRows = (url: string): Promise<unknown[]> => query(url, 'select text from kept');

test('a second start finds the data of the first', async () => {
  const { url } = await start();
  expect(await keptRows(url)).toEqual([{ text: 'first start' }]);
});

test('variables meant for another Postgres do not lead connections astray', async () => {
  const { url } = await start();
  vi.stubEnv('PGPORT', '6543');
  vi.stubEnv('PGSSLMODE', 'require');
  try {
    expect(await keptRows(url)).toEqual([{ text: 'first start' }]);
  } finally {
    vi.unstubAllEnvs();
  }
});

test('there is no TCP port, and only this system user may log in', async () => {
  const { url } = await start();
  expect(await query(url, 'show listen_addresses')).toEqual([{ listen_addresses: '' }]);
  const rules = await query(url, 'select type, auth_method from pg_hba_file_rules');
  expect(rules).toEqual([{ type: 'local', auth_method: 'peer' }]);
});

test.runIf(process.platform === 'linux')(
  'Postgres ends when its gateway is killed, and the next start serves',
  async () => {
    const { postgresPid } = await startGateway({ setpriv: true });
    gateway!.kill('SIGKILL');
    await vi.waitFor(() => expect(findProcess(postgresPid)).toBeUndefined(), patience);
    const { url } = await start();
    expect(await keptRows(url)).toEqual([{ text: 'first start' }]);
  },
);

test('a start right after the gateway was killed does not stumble over the Postgres that is still shutting down', async () => {
  await startGateway({ setpriv: true });
  gateway!.kill('SIGKILL');
  await once(gateway!, 'exit');
  const { url } = await start();
  expect(await keptRows(url)).toEqual([{ text: 'first start' }]);
});

// Without setpriv, packages that root installed for itself alone cannot be opened.
test.skipIf(process.geteuid?.() === 0 && (statSync(findPostgresBinaries().postgres).mode & 1) === 0)(
  'a Postgres that outlived its killed gateway is ended by the next start, which keeps its commits',
  async () => {
    const orphan = await startGateway({ setpriv: false });
    gateway!.kill('SIGKILL');
    await once(gateway!, 'exit');
    expect(findProcess(orphan.postgresPid)).toBeDefined();
    await query(orphan.url, "insert into kept values ('through the orphan')");
    const { url, pid } = await start();
    expect(pid()).not.toBe(orphan.postgresPid);
    expect(findProcess(orphan.postgresPid)).toBeUndefined();
    expect(await keptRows(url)).toEqual([{ text: 'first start' }, { text: 'through the orphan' }]);
    await query(url, "delete from kept where text = 'through the orphan'");
  },
);

test('a second gateway on the same DATA_DIR is refused in one line, and the first goes on', async () => {
  const first = await startGateway({ setpriv: true });
  const refusal = await startEmbeddedPostgres({ dataDir, logger, fast: true }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toBe(
    `DATA_DIR ${dataDir} is in use by the gateway with process id ${gateway!.pid}: stop that one, or give this one another DATA_DIR.`,
  );
  expect(await keptRows(first.url)).toEqual([{ text: 'first start' }]);
});

test('a stale pid file that names an unrelated living process, and a torn claim, do not stop a start', async () => {
  writeFileSync(
    join(dataDir, 'postgres/data/postmaster.pid'),
    `${process.pid}\n${dataDir}/postgres/data\n1763690000\n5432\n${dataDir}/postgres\n\n  1 2\nready   \n`,
  );
  writeFileSync(join(dataDir, 'postgres.owner'), '{"pid":');
  const { url } = await start();
  expect(await keptRows(url)).toEqual([{ text: 'first start' }]);
});

test('a Postgres that is killed comes back by itself with every committed row; its end and its return are logged, not the end of each connection', async () => {
  const lines: string[] = [];
  const loud = createLogger({ level: 'info', name: 'test', destination: { write: (line) => void lines.push(line) } });
  running = await startEmbeddedPostgres({ dataDir, logger: loud, fast: true });
  const { url, pid } = running;
  const clients = Array.from({ length: 5 }, () => new pg.Client(url));
  for (const client of clients) await client.on('error', () => {}).connect();
  const killed = pid();
  process.kill(killed, 'SIGKILL');
  await vi.waitFor(async () => expect(await keptRows(url)).toEqual([{ text: 'first start' }]), patience);
  expect(pid()).not.toBe(killed);
  const told = lines.map((line) => JSON.parse(line));
  expect(told.filter(({ err }) => err === 'terminating connection due to unexpected postmaster exit')).toHaveLength(1);
  expect(told.map(({ msg }) => msg)).toEqual(expect.arrayContaining([expect.stringContaining('runs again')]));
});

test('a Postgres that takes minutes to recover from a crash is waited for: ended halfway, it would begin anew at every start', async () => {
  const realNow = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => realNow() * 10_000);
  try {
    expect(await keptRows((await start()).url)).toEqual([{ text: 'first start' }]);
  } finally {
    vi.restoreAllMocks();
  }
});

test('a stop does not wait for a killed Postgres to recover, which may take minutes', async () => {
  const { pid } = await start();
  const pgData = join(dataDir, 'postgres/data');
  const settings = join(pgData, 'postgresql.auto.conf');
  const before = readFileSync(settings);
  const asked = join(pgData, 'asked');
  try {
    // A recovery that waits for a file of the log for ever.
    writeFileSync(settings, `restore_command = 'touch "${asked}" && sleep 1000000'\n`);
    writeFileSync(join(pgData, 'recovery.signal'), '');
    process.kill(pid(), 'SIGKILL');
    await vi.waitFor(() => expect(existsSync(asked)).toBe(true), patience);
    await running!.stop();
    running = undefined;
  } finally {
    writeFileSync(settings, before);
    rmSync(join(pgData, 'recovery.signal'), { force: true });
  }
  expect(await keptRows((await start()).url)).toEqual([{ text: 'first start' }]);
});

test('a killed process of Postgres, which costs all connections, is in the log with its signal', async () => {
  const lines: string[] = [];
  const loud = createLogger({ level: 'error', name: 'test', destination: { write: (line) => void lines.push(line) } });
  running = await startEmbeddedPostgres({ dataDir, logger: loud, fast: true });
  const client = new pg.Client(running.url);
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  process.kill(rows[0]!.pid, 'SIGKILL');
  await vi.waitFor(() => expect(lines.join('')).toMatch(/\(PID \d+\) was terminated by signal 9/), patience);
  expect(lines).toHaveLength(1);
  await vi.waitFor(async () => expect(await keptRows(running!.url)).toEqual([{ text: 'first start' }]), patience);
});

test('a stop that ends a connection warns of nothing', async () => {
  const lines: string[] = [];
  const loud = createLogger({ level: 'debug', name: 'test', destination: { write: (line) => void lines.push(line) } });
  running = await startEmbeddedPostgres({ dataDir, logger: loud, fast: true });
  const client = new pg.Client(running.url);
  client.on('error', () => {});
  await client.connect();
  await running.stop();
  await vi.waitFor(() => expect(lines.join('')).toContain('terminating connection due to administrator command'));
  expect(lines.filter((line) => JSON.parse(line).level > 20)).toEqual([]);
});

test('a killed Postgres that cannot be restarted yet is retried until it can', async () => {
  const lines: string[] = [];
  const loud = createLogger({ level: 'warn', name: 'test', destination: { write: (line) => void lines.push(line) } });
  running = await startEmbeddedPostgres({ dataDir, logger: loud, fast: true });
  const path = process.env.PATH;
  try {
    // Where setpriv is looked for.
    process.env.PATH = '/nonexistent';
    process.kill(running.pid(), 'SIGKILL');
    await vi.waitFor(() => expect(lines.join('')).toMatch(/did not start \(spawn \S+ ENOENT\)/), patience);
  } finally {
    process.env.PATH = path;
  }
  await vi.waitFor(async () => expect(await keptRows(running!.url)).toEqual([{ text: 'first start' }]), patience);
});

test.runIf(process.platform === 'linux')(
  'a killed Postgres comes back once there are descriptors for it again, and its gateway lives on without any',
  async () => {
    const { url, postgresPid } = await startGateway({ setpriv: true, stderr: 'pipe' });
    const limitFiles = (soft: number) => execFileSync('prlimit', [`--pid=${gateway!.pid}`, `--nofile=${soft}:`]);
    limitFiles(3);
    process.kill(postgresPid, 'SIGKILL');
    for await (const line of createInterface({ input: gateway!.stderr! })) if (line.includes('EMFILE')) break;
    limitFiles(1_000);
    await vi.waitFor(async () => expect(await keptRows(url)).toEqual([{ text: 'first start' }]), patience);
  },
);

test('a first start killed half-way is done again', async () => {
  const path = join(folder, 'half-way');
  mkdirSync(join(path, 'postgres/data.unfinished/base'), { recursive: true });
  const { url } = await start(path);
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
  expect(existsSync(join(path, 'postgres/data.unfinished'))).toBe(false);
});

test.runIf(process.platform === 'linux')(
  'a first start is not disturbed by the one before it, which was killed and still ends what it began',
  async () => {
    const path = join(folder, 'still-ending');
    gateway = spawn(process.execPath, [program, path], { stdio: 'ignore' });
    const initdb = () => readFileSync(`/proc/${gateway!.pid}/task/${gateway!.pid}/children`, 'utf8').trim();
    const begun = () => globSync(join(path, 'postgres/data.unfinished*/global/pg_control')).length;
    await vi.waitFor(() => expect(begun()).toBe(1), patience);
    const ending = Number(initdb());
    process.kill(ending, 'SIGSTOP');
    gateway.kill('SIGKILL');
    await once(gateway, 'exit');
    const starting = start(path);
    // The second has removed what the first left behind, and made its own.
    await vi.waitFor(() => expect(begun()).toBe(0), { ...patience, interval: 1 });
    await vi.waitFor(() => expect(begun()).toBe(1), { ...patience, interval: 1 });
    process.kill(ending, 'SIGCONT');
    const { url } = await starting;
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(globSync(join(path, 'postgres/data?*'))).toEqual([]);
  },
);

test.skipIf(process.platform === 'win32')('a first start without enough space for the data says so', async () => {
  // In units of 512 or 1,024 bytes: the programs' own files fit, the first file of the write-ahead log does not.
  const command = 'ulimit -f 1000; exec "$@"';
  const child = spawn('sh', ['-c', command, 'sh', process.execPath, program, join(folder, 'no-room')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text;
  });
  await once(child, 'close');
  expect(complaint).toMatch(/could not be set up in \S+ \(FATAL: [^\n]*File too large\): fix the cause/);
});

test('a DATA_DIR whose path is too long for a socket works', async () => {
  const { url } = await start(join(folder, 'x'.repeat(120)));
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a DATA_DIR that cannot be written to is refused in one line', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const refusal = await startEmbeddedPostgres({ dataDir: join(file, 'data'), logger }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toBe(
    `DATA_DIR ${join(file, 'data')} cannot be written (ENOTDIR): make it writable for this user, choose another DATA_DIR, or set DATABASE_URL.`,
  );
});

test('calls in a journal are not given to a new database, where nobody could be charged for them', async () => {
  const path = join(folder, 'lost-in-part');
  const journal = join(path, 'journal/4711-0123456789ab');
  mkdirSync(journal, { recursive: true });
  writeFileSync(join(journal, 'lock'), '');
  writeFileSync(join(journal, 'segment-1'), 'calls');
  const refusal = await startEmbeddedPostgres({ dataDir: path, logger, fast: true }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^DATA_DIR \S+ holds journals of calls, [^\n]*: set DATABASE_URL if it is on a server, put its folder postgres back /,
  );
  // So that mv can bring a backup of it.
  expect(existsSync(join(path, 'postgres'))).toBe(false);
  rmSync(join(journal, 'segment-1'));
  const { url } = await start(path);
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('data of another major version of Postgres is refused, saying what to do, and stays as it is', async () => {
  const path = join(folder, 'of-another-version');
  const { stop } = await start(path);
  await stop();
  const version = join(path, 'postgres/data/PG_VERSION');
  const own = readFileSync(version, 'utf8');
  writeFileSync(version, '15\n');
  const refusal = await startEmbeddedPostgres({ dataDir: path, logger }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^The embedded Postgres in \S+ did not start \(FATAL: .*version 15.*\): start the version of the gateway .* DATA_DIR/,
  );
  writeFileSync(version, own);
  const { url } = await start(path);
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test.runIf(process.geteuid?.() === 0)(
  'root runs Postgres as another user, even below a folder closed to that user',
  async () => {
    const closed = join(folder, 'closed');
    mkdirSync(closed, { mode: 0o700 });
    const { url } = await start(join(closed, 'data'));
    expect(await query(url, "select (pg_stat_file('base')).isdir")).toEqual([{ isdir: true }]);
  },
);
