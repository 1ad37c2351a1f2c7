import { useState } from 'react';
import { changedFields, useAction } from '../../api/hooks.ts';
import { numberOrText, plainNumber } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Checkbox, fieldError, TextArea, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { limitNames, limitTexts, RateLimitFields } from './rate-limit-fields.tsx';
import type { AdminPlan } from './types.ts';

type Fields = ReturnType<typeof fieldsOf>;

type PlanDialogProps = {
  /** The plan to edit; if missing, a new one is created. */
  plan?: AdminPlan;
  /** The codes of all plans. The API would take a new plan with an existing code for a change of that plan. */
  taken: readonly string[];
  onClose: () => void;
};

/**
 * Creates a plan, or edits everything about one but its code. A plan is always saved whole, so what nobody typed is as `plan` has it now,
 * not as it was when the form was opened.
 */
export function PlanDialog({ plan, taken, onClose }: PlanDialogProps) {
  const toast = useToast();
  const [code, setCode] = useState('');
  const [typed, setTyped] = useState<Partial<Fields>>({});
  const { name, payg, credit, terms, features, ...limits } = { ...fieldsOf(plan), ...typed };
  const type = (given: Partial<Fields>) => setTyped({ ...typed, ...given });
  const save = useAction<AdminPlan>({
    stale: ['/admin/plans', '/admin/organizations', '/plan', '/rate-limits'],
    onSuccess: (saved) =>
      toast.say(
        <>
          <bdi>{saved.name}</bdi> was saved.
        </>,
      ),
    onDone: onClose,
  });
  const isTaken = plan === undefined && taken.includes(code.trim());
  const submit = () => {
    const own = limitNames.filter((limit) => limits[limit].trim() !== '');
    const body = {
      name: name.trim(),
      payg_enabled: payg,
      rate_limits: Object.fromEntries(own.map((limit) => [limit, numberOrText(limits[limit])])),
      ...(credit.trim() === '' ? {} : { monthly_credit_usd: numberOrText(credit) }),
      features: features
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean),
      ...(terms.trim() === '' ? {} : { payment_terms_days: numberOrText(terms) }),
    };
    save.run({ method: 'PUT', path: `/admin/plans/${encodeURIComponent(plan?.code ?? code.trim())}`, body });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      title={
        plan === undefined ? (
          'Create a plan'
        ) : (
          <>
            Edit <bdi>{plan.name}</bdi>
          </>
        )
      }
      description={
        plan === undefined
          ? 'Organizations are put on it in their settings.'
          : 'This changes every organization on it at once: limits and pay as you go, and more credit is given at once. Less credit is given from the next month on.'
      }
    >
      <Form onSubmit={submit}>
        <FormError error={save.error} />
        <div className="grid min-[22rem]:grid-cols-2 gap-3">
          {plan === undefined && (
            <TextField
              label="Code"
              autoFocus
              spellCheck={false}
              className="font-mono"
              hint="Lower-case letters, digits and hyphens, e.g. team. It can never be changed."
              value={code}
              onChange={setCode}
              error={isTaken ? 'A plan with this code already exists.' : fieldError(save.error, 'code')}
            />
          )}
          <TextField
            label="Name"
            value={name}
            onChange={(name) => type({ name })}
            error={fieldError(save.error, 'name')}
          />
          <TextField
            label="Monthly credit in USD"
            inputMode="decimal"
            placeholder="None"
            value={credit}
            onChange={(credit) => type({ credit })}
            error={fieldError(save.error, 'monthly_credit_usd')}
          />
          <TextField
            label="Days to pay an invoice"
            inputMode="numeric"
            placeholder="30"
            value={terms}
            onChange={(terms) => type({ terms })}
            error={fieldError(save.error, 'payment_terms_days')}
          />
        </div>
        <Checkbox
          label="Pay as you go"
          hint="Usage beyond credit is invoiced. If off, calls stop when credit is used up."
          checked={payg}
          onChange={(payg) => type({ payg })}
        />
        <div className="grid gap-3 sm:grid-cols-3">
          <RateLimitFields
            texts={limits}
            onChange={(given) => type(changedFields(limits, given))}
            whose="Platform's"
            error={(limit) => fieldError(save.error, `rate_limits.${limit}`)}
          />
        </div>
        <TextArea
          label="What else is included"
          hint="Shown to users. One per line."
          rows={3}
          value={features}
          onChange={(features) => type({ features })}
          error={fieldError(save.error, 'features')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="primary"
            pending={save.pending}
            disabled={name.trim() === '' || isTaken || (plan === undefined && code.trim() === '')}
          >
            Save plan
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

/** The values that the form shows. */
const fieldsOf = (plan: AdminPlan | undefined) => ({
  name: plan?.name ?? '',
  payg: plan?.payg_enabled ?? false,
  credit: plan?.included.monthly_credit_usd ? plainNumber(plan.included.monthly_credit_usd) : '',
  terms: String(plan?.payment_terms_days ?? 30),
  features: (plan?.included.features ?? []).join('\n'),
  ...limitTexts(plan?.own_rate_limits),
});
