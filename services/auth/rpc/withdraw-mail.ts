import { transaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { withdrawMails } from '../db/mail.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

const keysMax = 1_000;

/** Takes back mails that no mail server has accepted yet. */
export const withdrawMail =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'withdrawMail'> =>
  async ({ dedupeKeyPrefix: prefix, notedDedupeKeys: noted }, context) => {
    requireService(callerOf(context));
    const dedupeKeys = await transaction(database, (em) =>
      withdrawMails(em, { prefix, noted, now: new Date(clock.now()), limit: keysMax }),
    );
    return { dedupeKeys };
  };
