import { notFound } from '#shared/errors.ts';
import { adminJobJson, jobStatuses } from '../../../edge/openai/job-json.ts';
import { type AdminCommand, argument, choice, pageOf, pageOptions, textOption } from './command.ts';

export const jobCommands: readonly AdminCommand[] = [
  {
    name: 'jobs list',
    usage: `[--organization id] [--status ${jobStatuses.names.join('|')}] [--model name] [--page n] [--limit n]`,
    summary: 'Lists background jobs, newest first, without their requests and results.',
    options: {
      ...pageOptions,
      organization: { type: 'string' },
      status: { type: 'string' },
      model: { type: 'string' },
    },
    async run({ jobs, asOperator }, args) {
      const request = {
        page: pageOf(args),
        tenantId: textOption(args, 'organization'),
        status: jobStatuses.value(choice(args, 'status', jobStatuses.names)),
        model: textOption(args, 'model'),
      };
      const answer = await jobs.adminListJobs(request, asOperator);
      const columns = ['id', 'tenant_id', 'model', 'status', 'created_at', 'started_at', 'attempts', 'worker_id'];
      return { output: answer.jobs.map(adminJobJson), page: answer.pageInfo, columns };
    },
  },
  {
    name: 'jobs show',
    usage: '<id>',
    summary: 'Shows a background job of any organization with its error and usage, without its request and result.',
    async run({ jobs, asOperator }, args) {
      const { jobs: found } = await jobs.adminListJobs({ jobId: argument(args, 0, "the job's id") }, asOperator);
      if (found[0] === undefined) throw notFound('job');
      return { output: adminJobJson(found[0]) };
    },
  },
];
