import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { v8Options } from './test/support/v8-options.ts';

/**
 * Those that take longest come first, so that none of them is left when the rest is done, and those that start many processes: a fork
 * copies the tables of all memory that its parent has come to hold. The others follow by size.
 */
const longest = [
  'test/flows/start.test.ts',
  'test/flows/stop.test.ts',
  'test/faults/kill.test.ts',
  'test/browser/dead-api.test.ts',
  'test/browser/every-page.test.ts',
  'test/faults/deployments.test.ts',
  'test/browser/feel.test.ts',
  'test/browser/fit.test.ts',
  'test/faults/failover.test.ts',
  'test/flows/split.test.ts',
  'test/browser/operator.test.ts',
  'test/browser/sign-in.test.ts',
  'test/browser/focus.test.ts',
  'test/browser/create-key.test.ts',
  'test/browser/keys.test.ts',
  'test/browser/operator-catalog.test.ts',
  'test/faults/upstream.test.ts',
  'test/browser/operator-audit.test.ts',
  'test/flows/retirement-mail.test.ts',
  'test/flows/retirement.test.ts',
  'test/flows/identity-model.test.ts',
  'services/shared/db/embedded.test.ts',
  'services/shared/rpc/transports.test.ts',
  'test/browser/analytics.test.ts',
  'test/flows/jobs.test.ts',
  'test/browser/addresses.test.ts',
  'test/browser/playground.test.ts',
  'test/browser/playground-speech.test.ts',
  'test/browser/jobs.test.ts',
  'services/auth/mail/sender.test.ts',
  'test/faults/backup.test.ts',
  'test/browser/roles.test.ts',
  'test/flows/audit-trail.test.ts',
  'test/faults/usage-reconciliation.test.ts',
  'test/browser/money.test.ts',
  'test/api/operations.test.ts',
  'test/flows/rolling-restart.test.ts',
  'test/flows/workers.test.ts',
  'test/faults/reminders-kill.test.ts',
  'test/flows/stop-during-uploads.test.ts',
  'services/billing/ledger/bank-kill.test.ts',
  'test/faults/jobs-kill.test.ts',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const index = longest.findIndex((path) => moduleId.endsWith(path));
      return index === -1 ? longest.length : index;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}

// Test processes inherit it, and all that they start: none strips the types of a module, or compiles it, that another has loaded before.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/model-gateway', import.meta.url));

export default defineConfig({
  test: {
    include: ['services/**/*.test.ts', 'edge/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    pool: 'forks',
    execArgv: v8Options,
    // Most tests wait for a process, a database or a browser: two for each core, and one more, keep the cores busy. More than a dozen
    // would not end sooner: the longest file takes as long as a twelfth of them all.
    maxWorkers: Math.min(12, 2 * availableParallelism() + 1),
    // Files share their process: no module keeps state for the next, and importing all anew would take a third of the time.
    isolate: false,
    // Node imports the modules as it does in production, from the compile cache: Vite's runner takes a fifth more work.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Only to end what hangs, on a machine that is ever so busy; tests wait for conditions, not for time.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
