import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import type { Rates } from '../../api/types.ts';
import { numberOrText, plainNumber } from '../../format/number.ts';
import { formatUtc } from '../../format/time.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { priceAt } from '../models/prices.ts';
import type { AdminPrice } from './types.ts';

const rates: readonly (readonly [keyof Rates, string])[] = [
  ['input_per_million_tokens_usd', 'Million input tokens'],
  ['cached_input_per_million_tokens_usd', 'Million cached tokens'],
  ['output_per_million_tokens_usd', 'Million output tokens'],
  ['per_image_usd', 'Image'],
  ['per_audio_second_usd', 'Second of audio'],
  ['per_million_characters_usd', 'Million characters'],
  ['per_request_usd', 'Request'],
];

type Texts = Partial<Record<keyof Rates, string>>;

/** The rates of a price as they are typed: without those that an empty field stands for. */
const textsOf = (price: Rates): Texts =>
  Object.fromEntries(
    rates
      .filter(([field]) => {
        const isCached = field === 'cached_input_per_million_tokens_usd';
        return price[field] !== (isCached ? price.input_per_million_tokens_usd : 0);
      })
      .map(([field]) => [field, plainNumber(price[field])]),
  );

type PriceDialogProps = {
  model: string;
  /** In the order in which they take effect. */
  prices: readonly AdminPrice[];
  onClose: () => void;
};

/** Sets all rates of a model anew. A rate that nobody typed is that of the price to be replaced, or it would become 0. */
export function PriceDialog({ model, prices, onClose }: PriceDialogProps) {
  const toast = useToast();
  const [typed, setTyped] = useState<Texts>({});
  const [from, setFrom] = useState('');
  const replaced = priceAt(prices, from === '' ? currentMs() : Date.parse(from));
  const texts: Texts = { ...(replaced === undefined ? {} : textsOf(replaced)), ...typed };
  const save = useAction({
    stale: ['/admin/models', '/admin/prices', '/models'],
    onSuccess: () => toast.say('Price set.'),
    onDone: onClose,
  });
  const submit = () => {
    const given = Object.entries(texts).filter(([, text]) => text.trim() !== '');
    save.run({
      method: 'POST',
      path: '/admin/prices',
      body: {
        model,
        ...(from === '' ? {} : { effective_from: new Date(from).toISOString() }),
        ...Object.fromEntries(given.map(([field, text]) => [field, numberOrText(text)])),
      },
    });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      title="Set a price"
      description={`In USD, for ${model}. Empty means free of charge; for cached tokens, the price of input.`}
    >
      <Form onSubmit={submit}>
        <FormError error={save.error} />
        <div className="grid min-[22rem]:grid-cols-2 gap-3">
          {rates.map(([field, label]) => (
            <TextField
              key={field}
              label={label}
              inputMode="decimal"
              value={texts[field] ?? ''}
              onChange={(text) => setTyped({ ...typed, [field]: text })}
              error={fieldError(save.error, field)}
            />
          ))}
        </div>
        <TextField
          label="In force from (local time)"
          type="datetime-local"
          hint={
            from === ''
              ? 'Leave empty to start now. A time in the past is refused.'
              : `That is ${formatUtc(from)}. The months of invoices begin at 00:00 UTC.`
          }
          value={from}
          onChange={setFrom}
          error={fieldError(save.error, 'effective_from')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending}>
            Set price
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
