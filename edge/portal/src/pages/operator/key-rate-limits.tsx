import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { changedLimits, limitNames, limitTexts, RateLimitFields } from './rate-limit-fields.tsx';
import type { AdminKey, AdminOrganizationDetails } from './types.ts';

/** A key's own rate limits, and their reset to those of its organization. */
export function KeyRateLimitsDialog({ apiKey, onClose }: { apiKey: AdminKey; onClose: () => void }) {
  const toast = useToast();
  const organization = useGet<AdminOrganizationDetails>(`/admin/organizations/${apiKey.tenant_id}`);
  const [before] = useState(() => limitTexts(apiKey.rate_limits));
  const [texts, setTexts] = useState(before);
  const save = useAction<AdminKey>({
    stale: ['/admin/keys'],
    onSuccess: ({ name }) =>
      toast.say(
        <>
          The rate limits of <bdi>{name}</bdi> were saved.
        </>,
      ),
    onDone: onClose,
  });
  const path = `/admin/keys/${apiKey.id}/rate-limits`;
  const hasOwn = limitNames.some((limit) => apiKey.rate_limits[limit] !== null);
  return (
    <Dialog
      open
      onClose={onClose}
      title={
        <>
          Rate limits of <bdi>{apiKey.name}</bdi>
        </>
      }
      description="They apply to this key only. An empty field leaves its organization's limit in force."
    >
      <Form onSubmit={() => save.run({ method: 'PATCH', path, body: changedLimits(before, texts) })}>
        <FormError error={save.error} />
        <div className="grid gap-3 sm:grid-cols-3">
          <RateLimitFields
            texts={texts}
            onChange={setTexts}
            inherited={organization.data?.effective_rate_limits}
            whose="Organization's"
            error={(limit) => fieldError(save.error, limit)}
          />
        </div>
        <DialogActions>
          {hasOwn && (
            <Button
              className="mr-auto"
              disabled={save.pending}
              onClick={() => save.run({ method: 'PUT', path, body: {} })}
            >
              Reset
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending}>
            Save limits
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
