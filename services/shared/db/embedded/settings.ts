/** Settings of the embedded Postgres, each as `name=value`. */
export function postgresSettings({ fast }: { fast: boolean }): string[] {
  return [
    'listen_addresses=',
    'port=5432',
    'unix_socket_permissions=0700',
    // The connections of every service, two pools each, with room for an operator.
    'max_connections=200',
    'shared_buffers=64MB',
    // Statements are short; workers and compiled plans would cost memory, and containers give 64 MB of shared memory.
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

const fastSettings = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'checkpoint_timeout=1h',
];
