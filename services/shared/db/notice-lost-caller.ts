/**
 * A query with which a transaction that may take long begins: Postgres would otherwise finish a statement that nobody waits for any more, and
 * keep its locks until then. Servers on other systems than these refuse the setting.
 */
export const noticeLostCaller = `select set_config('client_connection_check_interval', '1s', true) where version() ~ 'linux|darwin|bsd'`;
