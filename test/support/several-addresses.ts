import dns from 'node:dns';
import { vi } from 'vitest';

/** A name with two addresses, as localhost has on most machines, while `useSeveralAddresses` is in force. */
export const severalAddresses = 'several-addresses.example';

/** The errors of a connection to it that both addresses refuse, in any order. */
export const bothRefused = /(?=.*ECONNREFUSED 127\.0\.0\.1:).*ECONNREFUSED 127\.0\.0\.2:/;

/** Looks `severalAddresses` up, and every other name as ever, until it is disposed of. */
export function useSeveralAddresses(): Disposable {
  const lookup = dns.lookup as (...asked: unknown[]) => void;
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(((
    host: string,
    options: object,
    found: (error: null, addresses: unknown) => void,
  ) => {
    if (host === severalAddresses) found(null, addresses);
    else lookup(host, options, found);
  }) as typeof dns.lookup);
  return { [Symbol.dispose]: () => spy.mockRestore() };
}
