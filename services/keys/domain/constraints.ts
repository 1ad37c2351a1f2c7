import type { KeyConstraintsSchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { parseRange } from '#shared/cidr.ts';
import { invalidValue } from '#shared/errors.ts';
import type { WholeMessage } from '#shared/whole-message.ts';

type StoredConstraints = { modelAllowlist: string[]; ipAllowlist: string[]; spendCapNanoUsd: bigint | null };

/** What a key is confined to, for its owner and for the edges that enforce it. */
export const constraintsMessage = ({
  modelAllowlist,
  ipAllowlist,
  spendCapNanoUsd,
}: StoredConstraints): WholeMessage<typeof KeyConstraintsSchema> => ({
  modelAllowlist,
  ipAllowlist,
  spendCapNanoUsd: spendCapNanoUsd ?? undefined,
});

/** How many bad entries an error names. */
const namedEntriesMax = 20;

/** Checks an ip_allowlist; the error names each entry that is neither an address nor a range in CIDR notation. */
export function checkIpAllowlist(entries: readonly string[]): string[] {
  const bad = entries.filter((entry) => parseRange(entry) === null);
  if (bad.length > 0) {
    const named = bad
      .slice(0, namedEntriesMax)
      .map((entry) => `\`${entry.slice(0, 64).replace(/[^\x20-\x7e]/g, '?')}\``);
    const rest = bad.length > namedEntriesMax ? ` and ${bad.length - namedEntriesMax} more` : '';
    throw invalidValue(
      'ip_allowlist',
      `${named.join(', ')}${rest}. Expected IP addresses, or CIDR ranges without host bits such as 10.0.0.0/8`,
    );
  }
  return [...new Set(entries)];
}
