import { expect } from 'vitest';
import { commands } from '../../services/cmd/admin/commands.ts';
import { operatorClients } from '../../services/cmd/admin/operator-clients.ts';
import { runCommand } from '../../services/cmd/admin/run-command.ts';
import type { TestGateway } from './gateway.ts';

/** The operators' command line of a test gateway, without a process of its own for each command. */
export function adminOf(gateway: () => TestGateway) {
  const admin = (...argv: string[]) =>
    runCommand(commands, argv, () => ({
      ...operatorClients(gateway().gateway.switchboard),
      services: [],
      bootstrap: {} as never,
    }));
  /** What a command that succeeds prints with `--json`. */
  const json = async (...argv: string[]) => {
    const { exitCode, stdout, stderr } = await admin(...argv, '--json');
    expect([exitCode, stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  };
  return { admin, json };
}
