/** An endpoint is metered under one name for both prefixes, that of /v1 (service.md, Endpoints: the same handlers). */
export const endpointOf = (route: string): string => (route.startsWith('/api/') ? route.slice(4) : route);
