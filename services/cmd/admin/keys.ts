import type { Key } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { notFound } from '#shared/errors.ts';
import { keyStatuses, keyTypes } from '../../../edge/routes/api/api-keys/key-fields.ts';
import { adminKeyJson } from '../../../edge/routes/api/api-keys/key-json.ts';
import {
  type AdminArguments,
  type AdminCommand,
  type AdminContext,
  argument,
  choice,
  pageOf,
  pageOptions,
  textOption,
} from './command.ts';
import { limitOptions, limitsOf, shownLimits } from './rate-limits.ts';
import { timeText } from './time.ts';

export const keyCommands: readonly AdminCommand[] = [
  {
    name: 'keys list',
    usage:
      '[--organization id] [--user id] [--status active|expired|revoked] [--type inference|management] [--search text] [--page n] [--limit n]',
    summary:
      'Lists API keys, without their secrets. --search takes a part of a name or preview, or a whole secret that was found somewhere.',
    options: {
      ...pageOptions,
      organization: { type: 'string' },
      user: { type: 'string' },
      search: { type: 'string' },
      status: { type: 'string' },
      type: { type: 'string' },
    },
    async run({ keys, asOperator }, args) {
      const request = {
        page: pageOf(args),
        tenantId: textOption(args, 'organization'),
        userId: textOption(args, 'user'),
        search: textOption(args, 'search'),
        status: keyStatuses.value(choice(args, 'status', keyStatuses.names)),
        keyType: keyTypes.value(choice(args, 'type', keyTypes.names)),
      };
      const answer = await keys.adminListKeys(request, asOperator);
      return { output: answer.keys.map(shown), page: answer.page };
    },
  },
  {
    name: 'keys show',
    usage: '<id>',
    summary: 'Shows an API key with its scopes and restrictions, without its secret.',
    async run(context, args) {
      return { output: adminKeyJson(await keyNamed(context, args)) };
    },
  },
  {
    name: 'keys revoke',
    usage: '<id> [--reason text]',
    summary: 'Revokes an API key for good, on every edge at once.',
    options: { reason: { type: 'string' } },
    async run({ keys, asOperator }, args) {
      const request = { keyId: argument(args, 0, "the key's id"), reason: textOption(args, 'reason') };
      const { key } = await keys.revokeKey(request, asOperator);
      return { output: shown(key!) };
    },
  },
  {
    name: 'keys limits',
    usage: '<id> [--requests n] [--tokens n] [--concurrent n] [--organization-limits]',
    summary:
      "Sets an API key's rate limits (per minute, and at the same time), or returns to its organization's, shown as 0. Without options, shows them.",
    options: { ...limitOptions, 'organization-limits': { type: 'boolean' } },
    async run(context, args) {
      const withLimits = (key: Key) => ({ output: { ...shown(key), ...shownLimits(key.rateLimits) } });
      const key = await keyNamed(context, args);
      const given = limitsOf(args, 'organization-limits');
      if (given === null) return withLimits(key);
      const request = { keyId: key.id, ...given };
      return withLimits((await context.keys.setKeyRateLimits(request, context.asOperator)).key!);
    },
  },
];

async function keyNamed({ keys, asOperator }: AdminContext, args: AdminArguments): Promise<Key> {
  const { keys: found } = await keys.adminListKeys({ keyId: argument(args, 0, "the key's id") }, asOperator);
  const [key] = found;
  if (key === undefined) throw notFound('API key');
  return key;
}

const shown = (key: Key) => ({
  id: key.id,
  organization: key.tenantId,
  user: key.userId,
  preview: key.keyPreview,
  name: key.name,
  type: keyTypes.name(key.keyType),
  status: keyStatuses.name(key.status),
  last_used_at: timeText(key.lastUsedAt),
});
