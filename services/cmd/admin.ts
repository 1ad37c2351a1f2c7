import { startFailure } from './start-failure.ts';

// `npm run admin -- …`: what operators do in the portal, from the shell of a machine that has SERVICE_SECRET.

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader such as `head` has taken what it wanted.
  if (error.code === 'EPIPE') return;
  process.stderr.write(`The output could not be written: ${error.message}\n`);
  process.exitCode = 1;
});
try {
  // Imported here, so that packages that are not installed are reported in a line.
  const { runAdmin } = await import('./admin/run-admin.ts');
  const interruption = new AbortController();
  // A second one ends the program at once.
  process.once('SIGINT', () => interruption.abort());
  const outcome = await runAdmin(process.argv.slice(2), interruption.signal);
  process.stdout.write(outcome.stdout);
  process.stderr.write(outcome.stderr);
  process.exitCode = outcome.exitCode;
  // What the command still does, such as trying again, is not waited for.
  if (interruption.signal.aborted) process.exit();
} catch (error) {
  process.stderr.write(`${startFailure(error as Error) ?? (error as Error).stack}\n`);
  process.exitCode = 1;
}
