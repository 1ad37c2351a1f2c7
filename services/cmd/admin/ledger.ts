import { LedgerFaultKind } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { usdText } from '#shared/money.ts';
import { type AdminCommand, textOption } from './command.ts';

const kinds: Readonly<Record<number, string>> = {
  [LedgerFaultKind.UNBALANCED_TRANSACTION]: 'unbalanced_transaction',
  [LedgerFaultKind.WRONG_BALANCE]: 'wrong_balance',
  [LedgerFaultKind.WRONG_CHARGE]: 'wrong_charge',
  [LedgerFaultKind.WRONG_INVOICE]: 'wrong_invoice',
};

/** In milliseconds; the verification reads the whole ledger, which may have grown for years. */
const timeoutMs = 6 * 3_600_000;

export const ledgerCommands: readonly AdminCommand[] = [
  {
    name: 'ledger verify',
    usage: '[--organization id]',
    summary: 'Recomputes every sum of the ledger from its entries; fails and lists what is wrong.',
    options: { organization: { type: 'string' } },
    async run({ auth, billing, asOperator }, args) {
      const tenantId = textOption(args, 'organization');
      // Otherwise an organization that does not exist would be found sound.
      if (tenantId !== '') await auth.adminGetOrganization({ tenantId }, asOperator);
      const answer = await billing.verifyLedger({ tenantId }, { ...asOperator, timeoutMs });
      const faults = answer.faults.map((fault) => ({
        kind: kinds[fault.kind] ?? 'unknown',
        organization: fault.tenantId,
        subject: fault.subjectId,
        expected_usd: usdText(fault.expectedNanoUsd),
        actual_usd: usdText(fault.actualNanoUsd),
      }));
      const checked = {
        ledger: 'sound',
        transactions_checked: Number(answer.transactionsChecked),
        entries_checked: Number(answer.entriesChecked),
      };
      return { output: faults.length > 0 ? faults : checked, isFailure: faults.length > 0 };
    },
  },
];
