import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';

/** The published schedule of one model (service.md, Model retirement fields). Times are milliseconds since the Unix epoch. */
export type RetirementSchedule = {
  /** The announcement. Never moves. */
  deprecatedAtMs: number;
  /** The retirement; null while no date is fixed. Never earlier than the announcement. */
  sunsetAtMs: number | null;
  /** Exactly one of the two is given. */
  successor: { kind: 'model'; name: string } | { kind: 'note'; text: string };
};

export type RetirementState = 'serving' | 'announced' | 'dated' | 'retired';

/** The state follows from the schedule and the time alone, so every edge retires a model at the same instant. */
export function retirementState(schedule: RetirementSchedule | null, nowMs: number): RetirementState {
  if (schedule === null) return 'serving';
  if (schedule.sunsetAtMs === null) return 'announced';
  return nowMs < schedule.sunsetAtMs ? 'dated' : 'retired';
}

/** What comes after a model, as the two fields of which exactly one is given: the successor's name, or the operator's note. */
export const successorOf = (
  modelName: string | null | undefined,
  note: string | null | undefined,
): RetirementSchedule['successor'] =>
  modelName ? { kind: 'model', name: modelName } : { kind: 'note', text: note ?? '' };

/** The refusal of a retired model: tells the date, and the successor or the operator's note (service.md, Errors). */
export function modelSunset(model: string, schedule: RetirementSchedule): GatewayError {
  const date = new Date(schedule.sunsetAtMs ?? schedule.deprecatedAtMs).toISOString().slice(0, 10);
  const next =
    schedule.successor.kind === 'model' ? `Use \`${schedule.successor.name}\` instead.` : schedule.successor.text;
  const text = `The model \`${model}\` was retired on ${date}. ${next}`;
  return gatewayError(ErrorReason.MODEL_SUNSET, text, { param: 'model' });
}
