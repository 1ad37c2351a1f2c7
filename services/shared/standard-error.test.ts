import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const logger = fileURLToPath(new URL('./logger.ts', import.meta.url));

/**
 * Starts a process that logs `lines` numbered lines, says so on standard output, and at the next input logs one more line and exits. Nobody
 * reads its log before `logged` is called.
 */
function startLogging(lines: number) {
  const script = `
    const { createLogger } = await import(${JSON.stringify(logger)});
    const logger = createLogger({ level: 'info', name: 'test' });
    for (let number = 0; number < ${lines}; number += 1) logger.info({ number, text: 'x'.repeat(5_000) }, 'said');
    process.stdout.write('done');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    logger.info('the last words');
    process.exit(0);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
  return { child, logged: async () => readLines(child.stderr) };
}

async function readLines(stream: NodeJS.ReadableStream): Promise<{ number?: number; lines?: number; msg: string }[]> {
  let text = '';
  for await (const part of stream) text += part;
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

test('a log that nobody reads holds up nothing: what fits arrives later, in order, and the rest is counted', async () => {
  const { child, logged } = startLogging(1_000);
  await once(child.stdout, 'data');
  const reading = logged();
  child.stderr.on('data', (part: Buffer) => {
    if (part.includes('lines are missing here')) child.stdin.write('end');
  });
  const lines = await reading;
  const said = lines.filter(({ msg }) => msg === 'said');
  expect(said.map(({ number }) => number)).toEqual(said.map((_, index) => index));
  expect(lines.slice(said.length)).toMatchObject([{ lines: 1_000 - said.length }, { msg: 'the last words' }]);
});

test('what a process logs right before its end can be read completely, however slowly it is read', async () => {
  const { child, logged } = startLogging(100);
  await once(child.stdout, 'data');
  child.stdin.write('end');
  expect(await logged()).toHaveLength(101);
});
