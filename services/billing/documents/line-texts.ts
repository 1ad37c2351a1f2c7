import { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import type { InvoiceLineRow } from '../db/entities.ts';

/** What a line of an invoice counts, in words. Calls of another month than the invoice's, such as those charged late, are said to be. */
export const describedLine = ({ model, unit, month, usageMonth }: InvoiceLineRow): string =>
  `${model}: ${describedUnit(unit)}${usageMonth === month ? '' : `, used in ${usageMonth.slice(0, 7)}`}`;

function describedUnit(unit: PriceUnit): string {
  switch (unit) {
    case PriceUnit.MILLION_INPUT_TOKENS:
      return 'input tokens';
    case PriceUnit.MILLION_CACHED_INPUT_TOKENS:
      return 'cached input tokens';
    case PriceUnit.MILLION_OUTPUT_TOKENS:
      return 'output tokens';
    case PriceUnit.IMAGE:
      return 'images';
    case PriceUnit.AUDIO_SECOND:
      return 'audio, in seconds';
    case PriceUnit.MILLION_CHARACTERS:
      return 'characters';
    default:
      return 'requests';
  }
}
