import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { numberOrText } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminOrganization } from './types.ts';

const fields = ['name', 'key_quota', 'plan', 'rate_limits'];

/** What operators decide for an organization. A field left empty stays as it is. */
export function OrganizationSettings({ organization, path }: { organization: AdminOrganization; path: string }) {
  const toast = useToast();
  const limits = organization.rate_limits;
  const [name, setName] = useState(organization.name);
  const [quota, setQuota] = useState(
    organization.key_quota === null ? 'unlimited' : String(organization.key_quota ?? ''),
  );
  const [plan, setPlan] = useState('');
  const [requests, setRequests] = useState(String(limits?.requests_per_minute ?? ''));
  const [tokens, setTokens] = useState(String(limits?.tokens_per_minute ?? ''));
  const [concurrent, setConcurrent] = useState(String(limits?.concurrent_requests ?? ''));
  const save = useAction({ stale: ['/admin/organizations'], onSuccess: () => toast.say('The settings are saved.') });
  const submit = () => {
    const numbers = { requests_per_minute: requests, tokens_per_minute: tokens, concurrent_requests: concurrent };
    const given = Object.entries(numbers).filter(([, text]) => text.trim() !== '');
    save.run({
      method: 'PATCH',
      path,
      body: {
        ...(name === organization.name ? {} : { name }),
        ...(quota === ''
          ? {}
          : {
              key_quota: quota.trim().toLowerCase() === 'unlimited' ? null : numberOrText(quota.trim().toLowerCase()),
            }),
        ...(plan.trim() === '' ? {} : { plan: plan.trim() }),
        ...(given.length === 0
          ? {}
          : { rate_limits: Object.fromEntries(given.map(([key, text]) => [key, numberOrText(text)])) }),
      },
    });
  };
  return (
    <Card title="Settings">
      <Form onSubmit={submit}>
        <FormError error={save.error} fields={fields} />
        <TextField label="Name" value={name} onChange={setName} error={fieldError(save.error, 'name')} />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Keys per user"
            hint="A number, unlimited or default."
            value={quota}
            onChange={setQuota}
            error={fieldError(save.error, 'key_quota')}
          />
          <TextField
            label="Plan"
            hint="Its code; empty: as it is."
            value={plan}
            onChange={setPlan}
            error={fieldError(save.error, 'plan')}
          />
        </div>
        <div className="grid grid-cols-3 gap-3">
          <TextField
            label="Requests / min"
            inputMode="numeric"
            placeholder="Plan's"
            value={requests}
            onChange={setRequests}
            error={fieldError(save.error, 'rate_limits')}
          />
          <TextField
            label="Tokens / min"
            inputMode="numeric"
            placeholder="Plan's"
            value={tokens}
            onChange={setTokens}
          />
          <TextField
            label="Concurrent"
            inputMode="numeric"
            placeholder="Plan's"
            value={concurrent}
            onChange={setConcurrent}
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
