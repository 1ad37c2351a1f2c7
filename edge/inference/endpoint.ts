/** Under both prefixes an endpoint is metered by one name, that of /v1 (service.md, Endpoints: the same handlers). */
export const endpointOf = (route: string): string => (route.startsWith('/api/') ? route.slice(4) : route);
