import { type AdminCommand, pageOf, pageOptions, textOption } from './command.ts';
import { timeText } from './time.ts';

export const auditCommands: readonly AdminCommand[] = [
  {
    name: 'audit list',
    usage: '[--organization id] [--type text] [--page n] [--limit n]',
    summary: 'Lists audit events, newest first.',
    options: { ...pageOptions, organization: { type: 'string' }, type: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const filter = { page: pageOf(args), type: textOption(args, 'type') };
      const request = { tenantId: textOption(args, 'organization'), filter };
      const { events } = await auth.adminListAuditEvents(request, asOperator);
      const output = events.map(({ record, sequence }) => ({
        occurred_at: timeText(record!.occurredAt),
        organization: record!.tenantId,
        sequence: Number(sequence),
        type: record!.type,
        actor: record!.actor!.id,
        target: `${record!.target!.type} ${record!.target!.id}`,
      }));
      return { output };
    },
  },
  {
    name: 'audit verify',
    usage: '[--organization id]',
    summary: "Recomputes an organization's chain, or the platform's own; fails when it is broken.",
    options: { organization: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const tenantId = textOption(args, 'organization');
      let eventsChecked = 0;
      for (let afterSequence = 0n; ; ) {
        const part = await auth.verifyAuditChain({ tenantId, afterSequence }, asOperator);
        eventsChecked += Number(part.eventsChecked);
        if (part.nextAfterSequence === undefined) {
          const isWhole = part.firstBrokenSequence === undefined;
          const chain = isWhole ? 'whole' : 'broken';
          const firstBroken = isWhole ? '' : Number(part.firstBrokenSequence);
          return {
            output: { chain, events_checked: eventsChecked, first_broken_sequence: firstBroken },
            isFailure: !isWhole,
          };
        }
        afterSequence = part.nextAfterSequence;
      }
    },
  },
];
