import { catalogModels } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { adminDeploymentJson } from '../../../edge/routes/api/admin/deployments.ts';
import { type AdminCommand, argument, textOption } from './command.ts';

const switches: readonly [verb: string, summary: string, enabled: boolean][] = [
  ['stop', 'Sends a deployment no more calls; those in flight are finished.', false],
  ['start', 'Lets a stopped deployment serve again, once a probe has succeeded.', true],
];

export const deploymentCommands: readonly AdminCommand[] = [
  {
    name: 'deployments list',
    usage: '[--model name]',
    summary: 'Lists where models run, and how they are.',
    options: { model: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const entries = await catalogModels(models, textOption(args, 'model'), asOperator);
      const deployments = entries.flatMap(({ deployments }) => deployments);
      const columns = ['id', 'model', 'status', 'priority', 'weight', 'base_url', 'upstream_model', 'status_reason'];
      return { output: deployments.map(adminDeploymentJson), columns };
    },
  },
  ...switches.map(
    ([verb, summary, enabled]): AdminCommand => ({
      name: `deployments ${verb}`,
      usage: '<id>',
      summary,
      async run({ models, asOperator }, args) {
        const request = { deploymentId: argument(args, 0, "the deployment's id"), settings: { enabled } };
        const { deployment } = await models.updateDeployment(request, asOperator);
        return { output: adminDeploymentJson(deployment!) };
      },
    }),
  ),
  {
    name: 'deployments delete',
    usage: '<id>',
    summary: 'Deletes a deployment; calls in flight are finished.',
    async run({ models, asOperator }, args) {
      const deploymentId = argument(args, 0, "the deployment's id");
      await models.deleteDeployment({ deploymentId }, asOperator);
      return { output: { id: deploymentId, deleted: true } };
    },
  },
];
