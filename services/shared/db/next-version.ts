/**
 * The version that follows `version`, in SQL: the time in microseconds, or one more. A failover may lose what was committed last, and
 * whoever had heard of it would take what gets the same numbers afterwards for known: times are not given out again.
 */
export const nextVersion = 'greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)';
