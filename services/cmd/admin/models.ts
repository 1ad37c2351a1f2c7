import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { CatalogModel } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { catalogModel } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { adminModelJson } from '../../../edge/routes/api/admin/models.ts';
import { parseCatalog } from './catalog-file.ts';
import { type AdminCommand, argument, pageOf, pageOptions, textOption, UsageError } from './command.ts';
import { timeText } from './time.ts';

/** In milliseconds; a file may name 10,000 models. */
const importTimeoutMs = 120_000;

export const modelCommands: readonly AdminCommand[] = [
  {
    name: 'models list',
    usage: '[--search text] [--page n] [--limit n]',
    summary: 'Lists the models of the catalog, including retired ones.',
    options: { ...pageOptions, search: { type: 'string' } },
    async run({ models, asOperator }, args) {
      const request = { page: pageOf(args), search: textOption(args, 'search') };
      const answer = await models.adminListModels(request, asOperator);
      return { output: answer.models.map(shown), page: answer.pageInfo };
    },
  },
  {
    name: 'models show',
    usage: '<name>',
    summary: 'Shows a model with its deployments, prices and grants.',
    async run({ models, asOperator }, args) {
      return { output: adminModelJson(await catalogModel(models, argument(args, 0, 'the model'), asOperator)) };
    },
  },
  {
    name: 'models delete',
    usage: '<name>',
    summary: 'Deletes a model with its deployments and grants. To take a model away from its users, retire it instead.',
    async run({ models, asOperator }, args) {
      const name = argument(args, 0, 'the model');
      await models.deleteModel({ name }, asOperator);
      return { output: { name, deleted: true } };
    },
  },
  {
    name: 'models import',
    usage: '<catalog.yaml> [--dry-run]',
    summary: 'Adds and changes models, deployments and prices. What the file does not name stays.',
    options: { 'dry-run': { type: 'boolean' } },
    async run({ models, asOperator }, args) {
      // npm starts scripts in the folder of package.json, whatever the shell's is: an error names the place.
      const file = resolve(argument(args, 0, 'the file'));
      const bytes = await readFile(file).catch((error: Error) => {
        throw new UsageError(`${file} cannot be read: ${error.message}`);
      });
      if (!isUtf8(bytes)) throw new UsageError(`${file} is not UTF-8`);
      const request = { models: parseCatalog(bytes.toString()), dryRun: args.values['dry-run'] === true };
      const counts = await models.importCatalog(request, { ...asOperator, timeoutMs: importTimeoutMs });
      return {
        output: {
          dry_run: request.dryRun,
          models_created: counts.modelsCreated,
          models_updated: counts.modelsUpdated,
          deployments_created: counts.deploymentsCreated,
          deployments_updated: counts.deploymentsUpdated,
          prices_created: counts.pricesCreated,
        },
      };
    },
  },
];

const shown = ({ model, deployments }: CatalogModel) => ({
  name: model!.name,
  visibility: model!.visibility === Visibility.PRIVATE ? 'private' : 'public',
  serves: model!.isServiceable ? 'yes' : 'no',
  deployments: deployments.length,
  retires_at: timeText(model!.retirement?.sunsetAt),
});
