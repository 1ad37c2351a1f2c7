import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { type RetirementSchedule, type RetirementState, retirementState } from './retirement.ts';

/** An announcement: the date, if already fixed, and what comes after the model. */
type Announcement = Pick<RetirementSchedule, 'sunsetAtMs' | 'successor'>;

/** What has to be known of the named successor; null: there is no such model. */
export type SuccessorFacts = { state: RetirementState; knownToAllUsers: boolean } | null;

/** The schedule of a model that was serving. @throws INVALID_REQUEST naming the field, CONFLICT when it is announced already. */
export function announced(
  model: string,
  current: RetirementSchedule | null,
  announcement: Announcement,
  successor: SuccessorFacts,
  nowMs: number,
): RetirementSchedule {
  const state = retirementState(current, nowMs);
  if (state !== 'serving') {
    throw conflict(
      state === 'retired'
        ? `The model \`${model}\` is retired.`
        : `The retirement of \`${model}\` is already announced. Its date can be moved; withdraw it to name another successor.`,
    );
  }
  if (announcement.successor.kind === 'model') checkSuccessor(model, announcement.successor.name, successor);
  else if (announcement.successor.text.trim() === '') {
    throw invalidRequest('retirement_note', 'Say in `retirement_note` why there is no successor.', 'invalid_value');
  }
  if (announcement.sunsetAtMs !== null) checkFuture(announcement.sunsetAtMs, nowMs);
  return { ...announcement, deprecatedAtMs: nowMs };
}

/** The schedule with its date fixed or moved. Once the date has passed it stays: a retired model is not revived (decisions.md, Models). */
export function dated(
  model: string,
  current: RetirementSchedule,
  sunsetAtMs: number,
  nowMs: number,
): RetirementSchedule & { sunsetAtMs: number } {
  if (retirementState(current, nowMs) === 'retired') {
    throw conflict(`The model \`${model}\` is retired: its date has passed and can no longer be moved.`);
  }
  if (sunsetAtMs < current.deprecatedAtMs) {
    throw invalidRequest('sunset_at', '`sunset_at` must not be earlier than the announcement.', 'invalid_value');
  }
  checkFuture(sunsetAtMs, nowMs);
  return { ...current, sunsetAtMs };
}

/** Refuses to withdraw a retirement that has happened. */
export function checkWithdrawable(model: string, current: RetirementSchedule, nowMs: number): void {
  if (retirementState(current, nowMs) === 'retired') {
    throw conflict(`The model \`${model}\` is retired: its announcement can no longer be withdrawn.`);
  }
}

/** Refuses to delete a model about which users were told until when it serves and what comes after it (service.md, States). */
export function checkDeletable(model: string, current: RetirementSchedule | null, nowMs: number): void {
  const state = retirementState(current, nowMs);
  if (state === 'serving') return;
  throw conflict(
    state === 'retired'
      ? `The model \`${model}\` is retired and cannot be deleted: requests that name it are told what comes after it.`
      : `The retirement of \`${model}\` is announced: withdraw it before you delete the model.`,
  );
}

function checkSuccessor(model: string, name: string, facts: SuccessorFacts): void {
  const refuse = (text: string): never => {
    throw invalidRequest('replacement_model_name', text, 'invalid_value');
  };
  if (name === model) refuse('A model cannot be its own successor.');
  if (facts === null) refuse(`The successor \`${name}\` does not exist.`);
  else if (facts.state === 'retired') refuse(`The successor \`${name}\` is itself retired.`);
  else if (facts.state !== 'serving') refuse(`The successor \`${name}\` is itself about to retire.`);
  // The successor's name appears in headers, mails and on a public page.
  else if (!facts.knownToAllUsers) {
    refuse(`The successor \`${name}\` is private, and not granted to everybody who may use \`${model}\`.`);
  }
}

function checkFuture(sunsetAtMs: number, nowMs: number): void {
  if (sunsetAtMs <= nowMs) throw invalidRequest('sunset_at', '`sunset_at` must be in the future.', 'invalid_value');
}

const conflict = (text: string) => gatewayError(ErrorReason.CONFLICT, text);
