/*
 * Addresses and CIDR ranges as 32-bit integers. Parsing is strict (RFC 4291 section 2.2, RFC 4632 section 3.1): what two parsers could read
 * differently, such as 010.0.0.1 or 10.1, is not an address. An IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) counts as the IPv4
 * address in it, so that a dual-stack listener sees the client it would see without IPv6.
 */

/** An IPv4 address as one unsigned 32-bit word, or an IPv6 address as four. */
type IpAddress = number | Ipv6Words;
export type Ipv6Words = readonly [number, number, number, number];

/** A network and the length of its prefix in bits: up to 32 when the network is a number, else up to 128. */
export type IpRange = { network: IpAddress; prefix: number };

/** Reads an address; null when the text is none. Zone ids are not accepted. */
export function parseAddress(text: string): IpAddress | null {
  const dotted = parseIpv4(text);
  if (dotted !== null) return dotted;
  const words = parseIpv6(text);
  return words === null ? null : withoutMapping(words);
}

/**
 * Reads an address or a range in CIDR notation; an address is a range of its own. Null when it is neither, or when bits are set after the
 * prefix: 10.1.2.3/8 may mean the address or the network.
 */
export function parseRange(text: string): IpRange | null {
  const slash = text.indexOf('/');
  const address = slash === -1 ? text : text.slice(0, slash);
  const dotted = parseIpv4(address);
  const words = dotted === null ? parseIpv6(address) : null;
  if (dotted === null && words === null) return null;
  const prefixMax = dotted === null ? 128 : 32;
  const prefix = slash === -1 ? prefixMax : parsePrefix(text.slice(slash + 1), prefixMax);
  if (prefix === null) return null;
  if (dotted !== null) return hasHostBits([dotted], prefix) ? null : { network: dotted, prefix };
  if (hasHostBits(words!, prefix)) return null;
  const network = prefix >= mappedPrefix ? withoutMapping(words!) : words!;
  return typeof network === 'number' ? { network, prefix: prefix - mappedPrefix } : { network, prefix };
}

/** The mask of a prefix within one word, as a signed integer, which is what bit operations return. */
export const maskOf = (prefix: number): number => (prefix <= 0 ? 0 : prefix >= 32 ? -1 : -1 << (32 - prefix));

/** Bits before the IPv4 address in an IPv4-mapped IPv6 address. */
const mappedPrefix = 96;

const withoutMapping = (words: Ipv6Words): IpAddress =>
  words[0] === 0 && words[1] === 0 && words[2] === 0xffff ? words[3] : words;

const hasHostBits = (words: readonly number[], prefix: number): boolean =>
  words.some((word, index) => (word & ~maskOf(prefix - 32 * index)) !== 0);

function parsePrefix(text: string, max: number): number | null {
  if (!/^(0|[1-9][0-9]{0,2})$/.test(text)) return null;
  const prefix = Number(text);
  return prefix <= max ? prefix : null;
}

/** Four decimal numbers without leading zeros. */
function parseIpv4(text: string): number | null {
  const length = text.length;
  if (length < 7 || length > 15) return null;
  let address = 0;
  let parts = 0;
  let value = -1;
  for (let index = 0; index <= length; index++) {
    const code = index === length ? dot : text.charCodeAt(index);
    if (code === dot) {
      if (value < 0) return null;
      address = address * 256 + value;
      parts += 1;
      value = -1;
    } else {
      const digit = code - zero;
      if (digit < 0 || digit > 9 || value === 0) return null;
      value = value < 0 ? digit : value * 10 + digit;
      if (value > 255) return null;
    }
  }
  return parts === 4 ? address : null;
}

const dot = 0x2e;
const zero = 0x30;
const groupPattern = /^[0-9a-fA-F]{1,4}$/;

function parseIpv6(text: string): Ipv6Words | null {
  if (text.length < 2 || text.length > 45) return null;
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const head = parseGroups(halves[0]!, halves.length === 1);
  const tail = halves.length === 2 ? parseGroups(halves[1]!, true) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  // `::` stands for at least one group; without it there are exactly eight.
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail];
  const word = (index: number): number => groups[index]! * 0x1_0000 + groups[index + 1]!;
  return [word(0), word(2), word(4), word(6)];
}

/** Groups of 16 bits; the last two may be written as an IPv4 address when they end the whole address. */
function parseGroups(text: string, endsAddress: boolean): number[] | null {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    if (groupPattern.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const dotted = endsAddress && index === parts.length - 1 ? parseIpv4(part) : null;
    if (dotted === null) return null;
    groups.push(dotted >>> 16, dotted & 0xffff);
  }
  return groups;
}
