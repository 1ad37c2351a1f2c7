import { useState } from 'react';
import { useAction, useWholeList } from '../../api/hooks.ts';
import type { Plan } from '../../api/types.ts';
import { numberOrText } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { limitNames, limitOf, limitTexts, RateLimitFields } from './rate-limit-fields.tsx';
import type { AdminOrganizationDetails } from './types.ts';

const fields = ['name', 'key_quota', 'plan', 'rate_limits'];

/** What operators decide for an organization. Only changes are sent; an empty rate limit means the plan's. */
export function OrganizationSettings({ organization, path }: { organization: AdminOrganizationDetails; path: string }) {
  const toast = useToast();
  const [before, setBefore] = useState(() => textsOf(organization));
  const plans = useWholeList<Plan>('/admin/plans');
  const [name, setName] = useState(before.name);
  const [quota, setQuota] = useState(before.key_quota);
  const [plan, setPlan] = useState(before.plan);
  const [limits, setLimits] = useState(before.limits);
  const save = useAction<AdminOrganizationDetails>({
    stale: ['/admin/organizations'],
    onSuccess: (saved) => {
      setBefore(textsOf(saved));
      toast.say('Settings saved.');
    },
  });
  const submit = () => {
    const wanted = quota.trim().toLowerCase();
    const changed = limitNames.filter((limit) => limits[limit].trim() !== before.limits[limit]);
    save.run({
      method: 'PATCH',
      path,
      body: {
        ...(name === before.name ? {} : { name }),
        ...(wanted === before.key_quota ? {} : { key_quota: wanted === 'unlimited' ? null : numberOrText(wanted) }),
        ...(plan === before.plan ? {} : { plan }),
        ...(changed.length === 0
          ? {}
          : { rate_limits: Object.fromEntries(changed.map((one) => [one, limitOf(limits[one])])) }),
      },
    });
  };
  return (
    <Card title="Settings">
      <Form onSubmit={submit}>
        <FormError error={save.error} fields={fields} />
        <TextField label="Name" required value={name} onChange={setName} error={fieldError(save.error, 'name')} />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Keys per user"
            hint="A number, unlimited or default."
            value={quota}
            onChange={setQuota}
            error={fieldError(save.error, 'key_quota')}
          />
          <SelectField
            label="Plan"
            value={plan}
            onChange={setPlan}
            choices={(plans.data ?? []).map(({ code, name }) => ({ value: code, label: name }))}
            error={fieldError(save.error, 'plan')}
          />
        </div>
        <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-1 xl:grid-cols-3">
          <RateLimitFields
            texts={limits}
            onChange={setLimits}
            inherited={organization.effective_rate_limits}
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

/** The values that the fields show. */
const textsOf = (organization: AdminOrganizationDetails) => ({
  name: organization.name,
  key_quota: organization.key_quota === null ? 'unlimited' : String(organization.key_quota),
  plan: organization.plan,
  limits: limitTexts(organization.rate_limits),
});
