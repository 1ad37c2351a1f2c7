import { auditEventTypes } from '#shared/audit-outbox/event-types.ts';
import { type AdminCommand, type AdminContext, pageOf, pageOptions, textOption, UsageError } from './command.ts';
import { timeText } from './time.ts';

export const auditCommands: readonly AdminCommand[] = [
  {
    name: 'audit list',
    usage: '[--organization id] [--type text] [--page n] [--limit n]',
    summary: 'Lists audit events, newest first.',
    options: { ...pageOptions, organization: { type: 'string' }, type: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const type = textOption(args, 'type');
      const types: readonly string[] = auditEventTypes;
      if (type !== '' && !types.includes(type)) throw new UsageError(`--type must be one of ${types.join(', ')}`);
      const filter = { page: pageOf(args), type };
      const request = { tenantId: textOption(args, 'organization'), filter };
      const { events, page } = await auth.adminListAuditEvents(request, asOperator);
      const output = events.map(({ record, sequence }) => ({
        occurred_at: timeText(record!.occurredAt),
        organization: record!.tenantId,
        sequence: Number(sequence),
        type: record!.type,
        actor: record!.actor!.id,
        target: `${record!.target!.type} ${record!.target!.id}`,
      }));
      return { output, page };
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
