import { dialects, operations, operationsNamed } from '../../../edge/routes/api/admin/catalog-fields.ts';
import { registrationTimeoutMs } from '../../../edge/routes/api/admin/upstreams.ts';
import { platformModelJson } from '../../../edge/routes/v1/models.ts';
import { type AdminCommand, argument, choice, choices, textOption } from './command.ts';

export const upstreamCommands: readonly AdminCommand[] = [
  {
    name: 'upstreams register',
    usage: '<base URL> [--secret-reference env:UPSTREAM_…] [--dialect name] [--operations name,…]',
    summary: 'Registers all models of an OpenAI-compatible server, each with a deployment there.',
    options: {
      'secret-reference': { type: 'string' },
      dialect: { type: 'string' },
      operations: { type: 'string' },
    },
    async run({ models, asOperator }, args) {
      const answer = await models.registerUpstream(
        {
          baseUrl: argument(args, 0, 'the base URL'),
          secretReference: textOption(args, 'secret-reference'),
          dialect: dialects.value(choice(args, 'dialect', dialects.names)),
          operations: operationsNamed(choices(args, 'operations', operations.names)),
        },
        { ...asOperator, timeoutMs: registrationTimeoutMs },
      );
      const columns = ['id', 'display_name', 'operations', 'context_window', 'visibility'];
      return { output: answer.models.map(platformModelJson), columns };
    },
  },
];
