import { type IpRange, type Ipv6Words, maskOf, parseAddress, parseRange } from '#shared/cidr.ts';

/** IPv4 networks, each followed by its mask: one array of small integers is two objects in memory, two typed arrays are six. */
type Ipv4Ranges = readonly number[];

/**
 * Compiles a key's ip_allowlist into integer masks; null when it is empty, which means no restriction (service.md, Key constraints). Keys
 * has checked the entries; one that is unreadable all the same admits nobody.
 */
export function compileIpAllowlist(entries: readonly string[]): ((ip: string) => boolean) | null {
  if (entries.length === 0) return null;
  const ranges = entries.map(parseRange).filter((range) => range !== null);
  const ipv4 = compileIpv4(ranges);
  const ipv6 = ranges.filter(({ network }) => typeof network !== 'number');
  // Most keys are used from one address, request after request.
  let lastAllowed: string | undefined;
  return (ip) => {
    if (ip === lastAllowed) return true;
    if (!isInside(ip)) return false;
    lastAllowed = ip;
    return true;
  };

  function isInside(ip: string): boolean {
    const address = parseAddress(withoutZone(ip));
    if (address === null) return false;
    return typeof address === 'number'
      ? containsIpv4(ipv4, address)
      : ipv6.some(({ network, prefix }) => containsIpv6(network as Ipv6Words, prefix, address));
  }
}

/** The system adds a zone to link-local peers (`fe80::1%eth0`), which says nothing about the address. */
function withoutZone(ip: string): string {
  const percent = ip.indexOf('%');
  return percent === -1 ? ip : ip.slice(0, percent);
}

const compileIpv4 = (ranges: readonly IpRange[]): Ipv4Ranges =>
  ranges.flatMap(({ network, prefix }) => (typeof network === 'number' ? [network | 0, maskOf(prefix)] : []));

function containsIpv4(ranges: Ipv4Ranges, address: number): boolean {
  for (let index = 0; index < ranges.length; index += 2) {
    if ((address & ranges[index + 1]!) === ranges[index]) return true;
  }
  return false;
}

function containsIpv6(network: Ipv6Words, prefix: number, address: Ipv6Words): boolean {
  for (let index = 0; index < 4; index++) {
    if (((address[index]! ^ network[index]!) & maskOf(prefix - 32 * index)) !== 0) return false;
  }
  return true;
}
