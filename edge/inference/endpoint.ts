/** A filter's endpoint as calls are metered: under one name for both prefixes, that of /v1 (service.md, Endpoints: the same handlers). */
export const meteredEndpoint = (asked: string): string => (asked.startsWith('/api/') ? asked.slice(4) : asked);
