import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['services/**/*.test.ts', 'edge/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    // Most tests wait for a process, a database or a browser, so that one more than there are cores keeps them busy.
    maxWorkers: availableParallelism() + 1,
    // Files share their process: no module has state of its own, and importing all anew would take a third of the time.
    isolate: false,
    // Only to end what hangs, on a machine that is ever so busy; tests wait for conditions, not for time.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
