import type { AdminRetirement } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { reminderJson, reminderStatuses } from '../../../edge/routes/api/admin/reminders.ts';
import {
  type AdminArguments,
  type AdminCommand,
  argument,
  choice,
  pageOf,
  pageOptions,
  textOption,
  timeNamed,
  timeOption,
  UsageError,
} from './command.ts';
import { timeText } from './time.ts';

export const retirementCommands: readonly AdminCommand[] = [
  {
    name: 'retirements list',
    usage: '[--model name] [--page n] [--limit n]',
    summary: 'Lists retirements, newest first, including withdrawn ones.',
    options: { ...pageOptions, model: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const request = { page: pageOf(args), model: textOption(args, 'model') };
      const { retirements, pageInfo: page } = await models.listRetirements(request, asOperator);
      return { output: retirements.map(shown), page };
    },
  },
  {
    name: 'retirements announce',
    usage: '<model> (--successor model | --note text) [--date time]',
    summary: 'Announces the retirement of a model, with or without a date.',
    options: { successor: { type: 'string' }, note: { type: 'string' }, date: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const { retirement } = await models.announceRetirement(
        {
          model: argument(args, 0, 'the model'),
          sunsetAt: timeOption(args, 'date'),
          successor: successorOrNote(args),
        },
        asOperator,
      );
      return { output: shown(retirement!) };
    },
  },
  {
    name: 'retirements date',
    usage: '<model> <time>',
    summary: 'Sets or moves the date of a retirement. A date that has passed can no longer be moved.',
    async run({ models, asOperator }, args) {
      const request = {
        model: argument(args, 0, 'the model'),
        sunsetAt: timeNamed(argument(args, 1, 'the time')),
      };
      const { retirement } = await models.setSunsetDate(request, asOperator);
      return { output: shown(retirement!) };
    },
  },
  {
    name: 'retirements withdraw',
    usage: '<model>',
    summary:
      'Withdraws an announced retirement, and its emails that were not sent yet. Users to whom one was sent are told by email that the model stays.',
    async run({ models, asOperator }, args) {
      const { retirement } = await models.withdrawRetirement({ model: argument(args, 0, 'the model') }, asOperator);
      return { output: shown(retirement!) };
    },
  },
  {
    name: 'reminders list',
    usage: `[--model name] [--status ${reminderStatuses.names.join('|')}] [--page n] [--limit n]`,
    summary: 'Lists the emails about retirements, latest due time first.',
    options: { ...pageOptions, model: { type: 'string' }, status: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const status = reminderStatuses.value(choice(args, 'status', reminderStatuses.names));
      const request = { page: pageOf(args), model: textOption(args, 'model'), status };
      const { reminders, pageInfo: page } = await models.listReminders(request, asOperator);
      const columns = ['due_at', 'model', 'point', 'email', 'status', 'sent_at', 'last_error'];
      return { output: reminders.map(reminderJson), page, columns };
    },
  },
];

/** Exactly one of the two is given (service.md, Model retirement fields). */
function successorOrNote(args: AdminArguments) {
  const successor = textOption(args, 'successor');
  const note = textOption(args, 'note');
  if ((successor === '') === (note === '')) throw new UsageError('give either --successor or --note');
  return successor === ''
    ? ({ case: 'retirementNote', value: note } as const)
    : ({ case: 'replacementModelName', value: successor } as const);
}

const shown = ({ model, retirement, withdrawnAt, ...counts }: AdminRetirement) => ({
  model,
  announced_at: timeText(retirement!.deprecatedAt),
  retires_at: timeText(retirement!.sunsetAt),
  successor: retirement!.replacementModelName,
  note: retirement!.retirementNote,
  withdrawn_at: timeText(withdrawnAt),
  // Which were sent is known only once those that wait in the outbox have been taken back.
  mails_sent: counts.recallsReminders ? null : Number(counts.remindersSent),
  mails_pending: Number(counts.remindersPending),
});
