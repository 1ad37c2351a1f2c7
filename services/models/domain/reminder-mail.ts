import { ReminderPoint } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { type Letter, letter } from '#shared/letter.ts';
import { oneLine } from '#shared/safe-text.ts';
import type { RetirementSchedule } from './retirement.ts';

type MailOptions = {
  model: string;
  isPublic: boolean;
  schedule: RetirementSchedule;
  point: ReminderPoint;
  publicUrl: string;
};

/** The mail to the users of a model, the same for all of them; `schedule` has a date, unless the point is its withdrawal. */
export function reminderMail(options: MailOptions): Letter {
  const { point, publicUrl } = options;
  const { subject, lines, why } = point === ReminderPoint.WITHDRAWAL ? withdrawal(options) : retirement(options);
  // The retirement page can be read by anybody, so it knows only public models, and only those that retire.
  const page = options.isPublic && point !== ReminderPoint.WITHDRAWAL ? 'retirements' : 'models';
  const link = `${publicUrl}/${page}/${encodeURIComponent(options.model.toWellFormed())}`;
  const cut = subject.slice(0, 255).replace(/[\ud800-\udbff]$/, '');
  return { ...letter({ subject, before: lines, link, after: [why] }), subject: cut };
}

type Words = { subject: string; lines: string[]; why: string };

function withdrawal(options: MailOptions): Words {
  const model = oneLine(options.model);
  return {
    subject: `${model} stays: its retirement was withdrawn`,
    lines: [
      `The retirement of the model ${model} was withdrawn: the model stays, and serves every request as before.`,
      'There is nothing that you need to change.',
    ],
    why: 'You are receiving this email because an earlier one told you that the model would retire.',
  };
}

function retirement({ schedule, point, ...options }: MailOptions): Words {
  const model = oneLine(options.model);
  const moment = new Date(schedule.sunsetAtMs!).toISOString();
  const [day, time] = [moment.slice(0, 10), moment.slice(11, 16)];
  const { subject, lines } =
    point === ReminderPoint.RETIREMENT_DAY
      ? {
          subject: `${model} is retired`,
          lines: [
            `The model ${model} was retired on ${day} at ${time} UTC.`,
            'Requests that name it get the status 410 and the error code model_sunset. Retrying does not help.',
          ],
        }
      : {
          subject: `${point === ReminderPoint.ANNOUNCEMENT ? '' : 'Reminder: '}${model} retires on ${day}`,
          lines: [
            `The model ${model} retires on ${day} at ${time} UTC.`,
            'Until then it serves every request unchanged. From then on, requests that name it get the status 410 and the error code model_sunset.',
          ],
        };
  const { successor } = schedule;
  const next =
    successor.kind === 'model'
      ? `Its successor is ${oneLine(successor.name)}: use that name as the model.`
      : oneLine(successor.text);
  const why =
    'You are receiving this email because your organization used the model in the last 90 days, or has it on the allowlist of an API key.';
  return { subject, lines: [...lines, next], why };
}
