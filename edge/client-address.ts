import type { FastifyRequest } from 'fastify';

/** An IPv4 address mapped into IPv6, or an address to which a proxy such as Azure's has added a port in X-Forwarded-For. */
const otherSpelling = /^(?:\[([\da-f:.]+)\]:\d+|(?:::ffff:)?([\d.]+)(?::\d+)?)$/i;

/** The address of a request's client, always spelled the same way: allowlists, per-address limits and the audit log compare it. */
export function clientAddress({ ip }: { ip: FastifyRequest['ip'] | undefined }): string {
  // Node no longer knows the address of a client that has left.
  if (ip === undefined) return '';
  if (!ip.includes(':')) return ip;
  const [, ipv6, ipv4] = otherSpelling.exec(ip) ?? [];
  return ipv4 ?? (ipv6 === undefined ? ip : clientAddress({ ip: ipv6 }));
}
