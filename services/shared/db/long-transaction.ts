import type { ServiceDatabase } from './orm.ts';
import type { Sql } from './sql.ts';
import { sqlTransaction } from './transaction.ts';

/**
 * Postgres would otherwise finish a statement that nobody waits for any more, and keep its locks until then. Servers on other systems than
 * these refuse the setting.
 */
const noticeLostCaller = `select set_config('client_connection_check_interval', '1s', true) where version() ~ 'linux|darwin|bsd'`;

/**
 * A transaction whose statements may run longer than others. When `signal` aborts it rejects at once, in the middle of a statement, which
 * Postgres ends soon after.
 */
export const longTransaction = <T>(
  database: Pick<ServiceDatabase, 'pool'>,
  { statementTimeoutMs, signal }: { statementTimeoutMs: number; signal: AbortSignal | undefined },
  work: (sql: Sql) => Promise<T>,
): Promise<T> =>
  sqlTransaction(
    database,
    async (sql) => {
      await sql.query(noticeLostCaller);
      return work(sql);
    },
    { settings: { statement_timeout: statementTimeoutMs }, signal },
  );
