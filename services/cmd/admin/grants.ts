import { catalogModels } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { grantJson } from '../../../edge/routes/api/admin/grants.ts';
import {
  type AdminArguments,
  type AdminCommand,
  argument,
  existingOrganization,
  idempotencyKeyOf,
  idempotencyOptions,
  textOption,
} from './command.ts';

const model = (args: AdminArguments) => argument(args, 1, 'the model');

export const grantCommands: readonly AdminCommand[] = [
  {
    name: 'grants list',
    usage: '[--model name]',
    summary: 'Lists the organizations for which private models exist.',
    options: { model: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const entries = await catalogModels(models, textOption(args, 'model'), asOperator);
      return { output: entries.flatMap(({ grants }) => grants).map(grantJson) };
    },
  },
  {
    name: 'grants create',
    usage: '<organization> <model> [--idempotency-key text]',
    summary: 'Grants a private model to an organization.',
    options: idempotencyOptions,
    async run(context, args) {
      const request = { model: model(args), idempotencyKey: idempotencyKeyOf(args) };
      const tenantId = await existingOrganization(context, args);
      const { grant } = await context.models.grantModel({ tenantId, ...request }, context.asOperator);
      return { output: grantJson(grant!) };
    },
  },
  {
    name: 'grants revoke',
    usage: '<organization> <model>',
    summary: 'Takes a grant back: the model no longer exists for the organization.',
    async run({ models, asOperator }, args) {
      const request = { tenantId: argument(args, 0, "the organization's id"), model: model(args) };
      await models.revokeGrant(request, asOperator);
      return { output: { model: request.model, tenant_id: request.tenantId, revoked: true } };
    },
  },
];
