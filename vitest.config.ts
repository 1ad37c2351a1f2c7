import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['services/**/*.test.ts', 'edge/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    // Most tests wait for a process, a database or a browser, so that one more than there are cores keeps them busy.
    maxWorkers: availableParallelism() + 1,
    // Long enough for a machine that is busy with other things; tests wait for conditions, not for time.
    testTimeout: 20_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
  },
});
