import { auditEventTypes } from '#shared/audit-outbox/event-types.ts';
import { adminAuditEventJson } from '../../../edge/routes/api/admin/audit-events.ts';
import {
  type AdminCommand,
  type AdminContext,
  choice,
  pageOf,
  pageOptions,
  textOption,
  timeOption,
  wholeNumber,
} from './command.ts';

export const auditCommands: readonly AdminCommand[] = [
  {
    name: 'audit list',
    usage:
      '[--organization id] [--type text] [--actor id] [--target id] [--from time] [--before time] [--sequence n] [--page n] [--limit n]',
    summary: 'Lists audit events, newest first; with --json also what changed, the address and the request.',
    options: {
      ...pageOptions,
      organization: { type: 'string' },
      type: { type: 'string' },
      actor: { type: 'string' },
      target: { type: 'string' },
      from: { type: 'string' },
      before: { type: 'string' },
      sequence: { type: 'string' },
    },
    async run({ auth, asOperator }, args) {
      const filter = {
        page: pageOf(args),
        type: choice(args, 'type', auditEventTypes),
        actorId: textOption(args, 'actor'),
        targetId: textOption(args, 'target'),
        occurredFrom: timeOption(args, 'from'),
        occurredBefore: timeOption(args, 'before'),
        sequence: BigInt(wholeNumber(args, 'sequence', Number.MAX_SAFE_INTEGER) ?? 0),
      };
      const request = { tenantId: textOption(args, 'organization'), filter };
      const { events, page } = await auth.adminListAuditEvents(request, asOperator);
      const columns = ['occurred_at', 'tenant_id', 'sequence', 'type', 'actor.id', 'target.type', 'target.id'];
      return { output: events.map(adminAuditEventJson), page, columns };
    },
  },
  {
    name: 'audit verify',
    usage: '[--organization id]',
    summary:
      "Recomputes an organization's audit chain, or by default those of the platform and all organizations; fails and lists what is broken.",
    options: { organization: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const asked = textOption(args, 'organization');
      const chains = asked === '' ? ['', ...(await organizationIds(auth, asOperator))] : [asked];
      const broken = [];
      let eventsChecked = 0;
      for (const tenantId of chains) {
        const { events, firstBroken } = await verifyChain(auth, asOperator, tenantId);
        eventsChecked += events;
        if (firstBroken === undefined) continue;
        broken.push({ chain: 'broken', organization: tenantId, first_broken_sequence: Number(firstBroken) });
      }
      const whole = { chain: 'whole', chains_checked: chains.length, events_checked: eventsChecked };
      return { output: broken.length > 0 ? broken : whole, isFailure: broken.length > 0 };
    },
  },
];

type Auth = AdminContext['auth'];
type Options = AdminContext['asOperator'];

/** The ids of all organizations. */
async function organizationIds(auth: Auth, options: Options): Promise<string[]> {
  const ids = new Set<string>();
  for (let page = 1; ; page++) {
    const answer = await auth.adminListOrganizations({ page: { page, limit: 100 } }, options);
    for (const { id } of answer.organizations) ids.add(id);
    if (!answer.page!.hasNext) return [...ids];
  }
}

/** The length of a chain, and the first event that is not valid; the platform's own chain has an empty id. */
async function verifyChain(auth: Auth, options: Options, tenantId: string) {
  let events = 0;
  for (let afterSequence = 0n; ; ) {
    const part = await auth.verifyAuditChain({ tenantId, afterSequence }, options);
    events += Number(part.eventsChecked);
    if (part.nextAfterSequence === undefined) return { events, firstBroken: part.firstBrokenSequence };
    afterSequence = part.nextAfterSequence;
  }
}
