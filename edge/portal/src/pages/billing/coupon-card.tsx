import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';

export function CouponCard() {
  const [code, setCode] = useState('');
  const toast = useToast();
  const redeem = useAction({
    stale: ['/billing'],
    onSuccess: () => {
      setCode('');
      toast.say('Coupon redeemed: its credit is in the wallet.');
    },
  });
  return (
    <Card title="Coupon" description="Each coupon works once per organization.">
      <Form
        onSubmit={() => redeem.run({ method: 'POST', path: '/billing/coupons/redeem', body: { code: code.trim() } })}
      >
        <FormError error={redeem.error} />
        <TextField
          label="Code"
          autoComplete="off"
          spellCheck={false}
          className="font-mono uppercase"
          value={code}
          onChange={setCode}
          error={fieldError(redeem.error, 'code')}
        />
        <div>
          <Button type="submit" pending={redeem.pending} disabled={code.trim() === ''}>
            Redeem
          </Button>
        </div>
      </Form>
    </Card>
  );
}
