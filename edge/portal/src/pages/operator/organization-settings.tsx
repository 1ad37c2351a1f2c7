import { useQueryClient } from '@tanstack/react-query';
import { changedFields, useAction, useWholeList } from '../../api/hooks.ts';
import type { Plan } from '../../api/types.ts';
import { formatUsd, numberOrText } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError, useEdits } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useToast } from '../../ui/toast.tsx';
import { changedLimits, limitTexts, RateLimitFields } from './rate-limit-fields.tsx';
import type { AdminOrganizationDetails } from './types.ts';

/** What operators decide for an organization. Only changes are sent; an empty rate limit means the plan's. */
export function OrganizationSettings({ organization, path }: { organization: AdminOrganizationDetails; path: string }) {
  const toast = useToast();
  const queries = useQueryClient();
  const plans = useWholeList<Plan>('/admin/plans');
  const read = textsOf(organization);
  const { fields: texts, edits, type, saved } = useEdits(read);
  const planNamed = (code: string) => plans.data?.find((plan) => plan.code === code);
  const chosen = planNamed(texts.plan);
  const save = useAction<AdminOrganizationDetails>({
    stale: ['/admin/organizations'],
    onSuccess: (answer) => {
      queries.setQueryData([path], answer);
      saved();
      toast.say('Settings saved.');
    },
  });
  const submit = () => {
    const { name, key_quota, plan } = edits;
    const quota = key_quota?.trim().toLowerCase();
    const rate_limits = changedLimits(read, texts);
    save.run({
      method: 'PATCH',
      path,
      body: {
        ...(name === undefined ? {} : { name }),
        ...(quota === undefined ? {} : { key_quota: quota === 'unlimited' ? null : numberOrText(quota) }),
        ...(plan === undefined ? {} : { plan }),
        ...(Object.keys(rate_limits).length === 0 ? {} : { rate_limits }),
      },
    });
  };
  return (
    <Card title="Settings">
      <Form onSubmit={submit}>
        <FormError error={save.error} />
        <TextField
          label="Name"
          required
          value={texts.name}
          onChange={(name) => type({ name })}
          error={fieldError(save.error, 'name')}
        />
        <div className="grid min-[17rem]:grid-cols-2 gap-3">
          <TextField
            label="Keys per user"
            hint="A number, unlimited or default."
            value={texts.key_quota}
            onChange={(key_quota) => type({ key_quota })}
            error={fieldError(save.error, 'key_quota')}
          />
          <SelectField
            label="Plan"
            value={texts.plan}
            onChange={(plan) => type({ plan })}
            choices={(plans.data ?? []).map(({ code, name }) => ({ value: code, label: name }))}
            error={fieldError(save.error, 'plan')}
          />
        </div>
        {chosen !== undefined && texts.plan !== read.plan && (
          <PlanConsequence chosen={chosen} present={planNamed(read.plan)} />
        )}
        <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-1 xl:grid-cols-3">
          <RateLimitFields
            texts={texts}
            onChange={(limits) => type(changedFields(texts, limits))}
            inherited={chosen?.rate_limits}
            error={(limit) => fieldError(save.error, `rate_limits.${limit}`)}
          />
        </div>
        <div>
          <Button type="submit" look="primary" pending={save.pending}>
            Save settings
          </Button>
        </div>
      </Form>
    </Card>
  );
}

/** What a plan changes once it is saved, beside the limits, which the fields show. */
function PlanConsequence({ chosen, present }: { chosen: Plan; present: Plan | undefined }) {
  const credit = chosen.included.monthly_credit_usd;
  return (
    <Notice role="status" tone={present?.payg_enabled && !chosen.payg_enabled ? 'warn' : 'neutral'}>
      {chosen.payg_enabled
        ? 'This plan has pay as you go: usage beyond commitment and credit is invoiced.'
        : 'This plan has no pay as you go: calls stop when no commitment or credit is left.'}
      {credit > 0 &&
        ` Its ${formatUsd(credit)} of credit for this month is given at once, less what a plan gave already.`}
    </Notice>
  );
}

/** The values that the fields show. */
const textsOf = (organization: AdminOrganizationDetails) => ({
  name: organization.name,
  key_quota: organization.key_quota === null ? 'unlimited' : String(organization.key_quota),
  plan: organization.plan,
  ...limitTexts(organization.rate_limits),
});
