import type { FastifyRequest } from 'fastify';

/** An IPv4 address that came by IPv6, and what proxies add a port to in X-Forwarded-For, as Azure's do. */
const otherSpelling = /^(?:\[([\da-f:.]+)\]:\d+|(?:::ffff:)?([\d.]+)(?::\d+)?)$/i;

/** Where a request comes from, in one spelling for each client: allowlists, the limits of an address and the audit log go by it. */
export function clientAddress({ ip }: Pick<FastifyRequest, 'ip'>): string {
  if (!ip.includes(':')) return ip;
  const [, ipv6, ipv4] = otherSpelling.exec(ip) ?? [];
  return ipv4 ?? (ipv6 === undefined ? ip : clientAddress({ ip: ipv6 }));
}
