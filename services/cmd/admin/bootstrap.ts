import type { AdminCommand } from './command.ts';

export const bootstrapCommands: readonly AdminCommand[] = [
  {
    name: 'bootstrap',
    usage: '',
    summary:
      'Creates what the first `npm start` creates: an operator who owns the first organization, the sandbox, the models of UPSTREAM_BASE_URL.',
    async run({ bootstrap }) {
      const { created, email, password } = await bootstrap();
      // A password is generated once, and shown once.
      return { output: { operator: email, created, ...(password !== undefined && { password }) } };
    },
  },
];
