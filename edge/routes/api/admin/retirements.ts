import { type Static, Type } from 'typebox';
import type { AdminRetirement } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import {
  idSchema,
  isoTime,
  isoTimeSchema,
  noBody,
  pageOf,
  pageQuerySchema,
  paginationJson,
  parseTime,
  parseTimeIfGiven,
  timeSchema,
} from '../../../http/json.ts';
import { nullable, orNull } from '../../../http/nullable.ts';
import { modelInPath, modelNameSchema } from './catalog-fields.ts';
import { reminderPoints } from './reminders.ts';

const optionalText = nullable(Type.String({ maxLength: 1000 }));

/** /api/v1/admin/retirements: announce, fix or move the date, withdraw (decisions.md, Auth: Operators). */
export const adminRetirementRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/retirements',
    {
      config: operatorOnly,
      schema: {
        summary: 'List retirements',
        description: 'Newest first, including withdrawn ones.',
        response: { 200: pageOf(adminRetirementSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          model: Type.Optional(modelNameSchema),
          next_first: Type.Optional(
            Type.Literal(true, {
              description: 'The next to retire first; then those without a date, then retired and withdrawn ones.',
            }),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, model, next_first: nextFirst } = request.query;
      const answer = await models.listRetirements({ page: { page, limit }, model, nextFirst }, asCaller(request));
      return { data: answer.retirements.map(adminRetirementJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/retirements',
    {
      config: operatorOnly,
      schema: {
        summary: 'Announce the retirement of a model',
        description:
          'Give `replacement_model_name`, or a `retirement_note` that explains why there is none. Emails to the users of the model begin once `sunset_at` is set, which may happen later.',
        idempotent: true,
        response: { 201: adminRetirementSchema },
        body: onlyFields({
          model: modelNameSchema,
          sunset_at: nullable(timeSchema),
          replacement_model_name: optionalText,
          retirement_note: optionalText,
        }),
      },
    },
    async (request, reply) => {
      const { model, sunset_at: sunsetAt, replacement_model_name: successor, retirement_note: note } = request.body;
      const { retirement } = await models.announceRetirement(
        {
          model,
          sunsetAt: parseTimeIfGiven(sunsetAt, 'sunset_at'),
          successor: successorOrNote(successor ?? null, note ?? null),
          idempotencyKey: idempotencyKey(request),
        },
        asCaller(request),
      );
      return reply.code(201).send(adminRetirementJson(retirement!));
    },
  );

  app.patch(
    '/api/v1/admin/retirements/*',
    {
      config: operatorOnly,
      schema: {
        summary: 'Set the date of a retirement',
        description: 'Sets or moves the date. Once it has passed, it cannot be moved.',
        response: { 200: adminRetirementSchema },
        body: onlyFields({ sunset_at: timeSchema }),
      },
    },
    async (request) => {
      const { retirement } = await models.setSunsetDate(
        { model: modelInPath(request), sunsetAt: parseTime(request.body.sunset_at, 'sunset_at') },
        asCaller(request),
      );
      return adminRetirementJson(retirement!);
    },
  );

  app.delete(
    '/api/v1/admin/retirements/*',
    {
      config: operatorOnly,
      schema: {
        summary: 'Withdraw a retirement',
        description:
          'Only before its date; a retired model is a conflict. Emails not yet sent are cancelled, and users to whom one was sent are told that the model stays.',
        response: { 204: noBody('The model stays.') },
      },
    },
    async (request, reply) => {
      await models.withdrawRetirement({ model: modelInPath(request) }, asCaller(request));
      return reply.code(204).send();
    },
  );
};

/** Exactly one of the two is given (service.md, Model retirement fields). */
function successorOrNote(successor: string | null, note: string | null) {
  if (successor !== null && note !== null) {
    throw invalidRequest('retirement_note', 'Give `replacement_model_name` or `retirement_note`, not both.');
  }
  if (successor !== null) return { case: 'replacementModelName', value: successor } as const;
  if (note !== null) return { case: 'retirementNote', value: note } as const;
  throw invalidRequest(
    'replacement_model_name',
    'Give `replacement_model_name`, or a `retirement_note` that explains why there is none.',
    'missing_required_field',
  );
}

export const adminRetirementSchema = Type.Object(
  {
    id: idSchema,
    model: Type.String(),
    deprecated_at: isoTimeSchema,
    sunset_at: orNull(isoTimeSchema),
    replacement_model_name: orNull(Type.String()),
    retirement_note: orNull(Type.String()),
    withdrawn_at: orNull(isoTimeSchema),
    reminders_sent: orNull(
      Type.Integer({
        description:
          'Emails put into the outbox. Null for the seconds in which a withdrawal or a moved date takes those back that the outbox has not sent.',
      }),
    ),
    reminders_pending: Type.Integer({
      description:
        'Emails that are due and not sent yet. Those of a later day are not counted: their recipients are found on that day.',
    }),
    reminder_points: Type.Array(
      Type.Object({
        point: reminderPoints.schema,
        due_at: orNull(
          Type.String({
            format: 'date-time',
            description:
              'Null when it is skipped: its moment had passed when the date was set, or its emails would come too late.',
          }),
        ),
        done_at: orNull(
          Type.String({
            format: 'date-time',
            description:
              'When the last of its emails was put into the outbox. A date that moves later does not repeat them.',
          }),
        ),
      }),
      { description: 'When users are told; empty until there is a date.' },
    ),
  },
  { $id: 'Retirement' },
);
const adminRetirementJson = ({
  id,
  model,
  retirement,
  withdrawnAt,
  points,
  ...counts
}: AdminRetirement): Static<typeof adminRetirementSchema> => ({
  id,
  model,
  deprecated_at: isoTime(retirement!.deprecatedAt!),
  sunset_at: isoTime(retirement!.sunsetAt),
  replacement_model_name: retirement!.replacementModelName || null,
  retirement_note: retirement!.retirementNote || null,
  withdrawn_at: isoTime(withdrawnAt),
  reminders_sent: counts.recallsReminders ? null : Number(counts.remindersSent),
  reminders_pending: Number(counts.remindersPending),
  reminder_points: points.map(({ point, dueAt, doneAt }) => ({
    point: reminderPoints.name(point),
    due_at: isoTime(dueAt),
    done_at: isoTime(doneAt),
  })),
});
