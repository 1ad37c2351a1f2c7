import { useAction } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError, useSentFields } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';

export function CouponCard() {
  const { fields, type, clear } = useSentFields({ code: '' }, { code: '' });
  const code = fields.code.trim();
  const toast = useToast();
  const redeem = useAction({
    stale: ['/billing'],
    onSuccess: () => {
      clear();
      toast.say('Coupon redeemed: its credit is in the wallet.');
    },
  });
  return (
    <Card title="Coupon" description="Each coupon works once per organization.">
      <Form onSubmit={() => redeem.run({ method: 'POST', path: '/billing/coupons/redeem', body: { code } })}>
        <FormError error={redeem.error} />
        <TextField
          label="Code"
          autoComplete="off"
          spellCheck={false}
          className="font-mono uppercase"
          value={fields.code}
          onChange={(code) => type({ code })}
          error={fieldError(redeem.error, 'code')}
        />
        <div>
          <Button type="submit" pending={redeem.pending} disabled={code === ''}>
            Redeem
          </Button>
        </div>
      </Form>
    </Card>
  );
}
