import { memoryBytes } from '#shared/memory-share.ts';

/** Settings of the embedded Postgres, each as `name=value`. */
export function postgresSettings({ fast }: { fast: boolean }): string[] {
  return [
    'listen_addresses=',
    'port=5432',
    'unix_socket_permissions=0700',
    // The connections of every service, of a second process during a restart, and some left for an operator.
    'max_connections=200',
    `shared_buffers=${sharedBuffersMb()}MB`,
    // Statements are short; workers and compiled plans would only cost memory, and containers give 64 MB of shared memory.
    'max_parallel_workers_per_gather=0',
    'jit=off',
    'max_wal_size=1GB',
    // A deadlock is retried (transaction.ts): the sooner it is found, the sooner it is over.
    'deadlock_timeout=200ms',
    'timezone=UTC',
    'log_timezone=UTC',
    'log_line_prefix=',
    // A failed statement may hold personal data: its text stays out of the log.
    'log_min_error_statement=panic',
    'log_checkpoints=off',
    ...(fast ? fastSettings : []),
  ];
}

/**
 * Postgres's own cache, whose memory is used only as pages are read. The pages that metering writes constantly are some 250 MB with 1,000
 * organizations; if they do not fit, an event costs twice as much, since each page is written out, read back and checksummed.
 */
const sharedBuffersMb = (): number => Math.min(512, Math.max(64, Math.floor(memoryBytes() / 8 / 2 ** 20)));

const fastSettings = [
  // Tests have little data, and many servers on one machine.
  'shared_buffers=64MB',
  // For as many gateways at a time as the machine has cores.
  'max_connections=2000',
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'checkpoint_timeout=1h',
];
