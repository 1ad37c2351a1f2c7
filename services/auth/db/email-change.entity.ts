import { defineEntity, p } from '@mikro-orm/postgresql';

export const EmailChangeEntity = defineEntity({
  name: 'EmailChange',
  tableName: 'email_changes',
  properties: {
    tokenHash: p.blob().primary(),
    userId: p.uuid(),
    /** The new address, as `normalEmail` spells it. */
    email: p.text(),
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    /** When the address was changed, or the request became void. */
    usedAt: p.datetime().nullable(),
  },
});
