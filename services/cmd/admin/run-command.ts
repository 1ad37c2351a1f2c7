import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { readableJson } from '#shared/readable-json.ts';
import { signedWithAnotherSecret } from '#shared/rpc/service-token.ts';
import { forTerminal } from '#shared/safe-text.ts';
import { type AdminArguments, type AdminCommand, type AdminContext, textOption, UsageError } from './command.ts';
import { helpText, pageText, textOf, usageText } from './text.ts';

/** Options that npm has too, and that may stand in an .npmrc: they may be there though nobody gave them. */
const ofNpmrc: readonly string[] = ['before', 'key'];

export type Outcome = { exitCode: number; stdout: string; stderr: string };

/**
 * Finds the command named by the arguments and runs it. Any failure becomes a line for the operator and an exit code. `open` connects to
 * the services; help needs none. `interrupted` ends the wait for a command, though not what it has begun; `env` is the environment.
 */
export async function runCommand(...call: Parameters<typeof outcomeOf>): Promise<Outcome> {
  const outcome = await outcomeOf(...call);
  // What it quotes may be somebody else's, such as a field of a catalog file.
  return { ...outcome, stderr: forTerminal(outcome.stderr) };
}

async function outcomeOf(
  commands: readonly AdminCommand[],
  argv: readonly string[],
  open: () => AdminContext,
  { interrupted, env = {} }: { interrupted?: AbortSignal; env?: NodeJS.ProcessEnv } = {},
): Promise<Outcome> {
  const command = commands.find(({ name }) => name.split(' ').every((word, index) => argv[index] === word));
  if (command === undefined) return withoutCommand(commands, argv);
  const usage = `Usage: npm run admin -- ${command.name} ${command.usage}\n`;
  if (asksForHelp(argv)) return { exitCode: 0, stdout: `${command.summary}\n${usage}`, stderr: '' };
  const context = open();
  let idempotencyKey = '';
  try {
    const options: ParseArgsOptionsConfig = { ...command.options, json: { type: 'boolean' } };
    const {
      positionals,
      values: given,
      tokens,
    } = parseArgs({
      args: argv.slice(command.name.split(' ').length),
      options,
      allowPositionals: true,
      tokens: true,
    });
    // Without `--`, npm keeps options, `--dry-run` even without a warning, and names them only in the environment.
    const lost = Object.keys(command.options ?? {}).find(
      (name) => given[name] === undefined && !ofNpmrc.includes(name) && env[`npm_config_${name.replaceAll('-', '_')}`],
    );
    if (lost !== undefined) throw new UsageError(`npm took --${lost} for itself: write \`--\` before the command`);
    // Otherwise an organization would get half of its new name, and `audit verify <id>` would verify another chain.
    const surplus = positionals[positionalsIn(command.usage)];
    if (surplus !== undefined) {
      throw new UsageError(`\`${surplus}\` is one argument too many; quote a text that contains spaces`);
    }
    // A variable that a script left unset must not verify another chain, or announce a retirement without its date.
    const empty = Object.entries<AdminArguments['values'][string]>(given).find(([, value]) => value === '');
    if (empty !== undefined) throw new UsageError(`--${empty[0]} is empty`);
    // The last one would win: `--operations chat_completions --operations embeddings` would take the chats of all models away.
    const named = tokens
      .filter((token) => token.kind === 'option')
      .map(({ name }) => name)
      .filter((name) => options[name]!.type === 'string' && options[name]!.multiple !== true);
    const twice = named.find((name, index) => named.indexOf(name) < index);
    if (twice !== undefined) throw new UsageError(`--${twice} is given twice`);
    // What must not happen twice has a key from here on, so that it can be repeated if nobody knows whether it happened.
    const takesKey = 'idempotency-key' in (command.options ?? {});
    const args: AdminArguments = {
      positionals,
      values: { ...(takesKey && { 'idempotency-key': uuidv7() }), ...given },
    };
    idempotencyKey = textOption(args, 'idempotency-key');
    const { output, page, columns, isFailure } = await Promise.race([command.run(context, args), aborted(interrupted)]);
    const stdout = given.json === true ? `${readableJson(JSON.stringify(output, null, 2))}\n` : textOf(output, columns);
    return { exitCode: isFailure ? 1 : 0, stdout, stderr: pageText(page) };
  } catch (error) {
    const repeat =
      idempotencyKey === ''
        ? ''
        : `To be sure that it is done once, repeat it with --idempotency-key ${idempotencyKey}.\n`;
    // The exit code by which shells tell of SIGINT.
    if (interrupted?.aborted) return { exitCode: 130, stdout: '', stderr: `Interrupted.\n${repeat}` };
    if (error instanceof UsageError || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS')) {
      return { exitCode: 2, stdout: '', stderr: `${(error as Error).message}\n${usage}` };
    }
    if (error instanceof GatewayError) {
      const stderr = `${textFor(error, context)}\n${statusOf(error) < 500 ? '' : repeat}`;
      return { exitCode: 1, stdout: '', stderr };
    }
    throw error;
  }
}

/** Fails once the signal is aborted. */
const aborted = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));

/** Help on all commands, or on those of the group that was named; after a command that does not exist, the reason comes first. */
function withoutCommand(commands: readonly AdminCommand[], argv: readonly string[]): Outcome {
  const [group] = argv.filter((word) => word !== 'help' && !word.startsWith('-'));
  const ofGroup = commands.filter(({ name }) => name.split(' ')[0] === group);
  const isAsked = argv.length === 0 || argv[0] === 'help' || asksForHelp(argv);
  if (isAsked && group === undefined) return { exitCode: 0, stdout: helpText(commands), stderr: '' };
  if (isAsked && ofGroup.length > 0) return { exitCode: 0, stdout: helpText(ofGroup), stderr: '' };
  // All commands together would push the reason out of sight.
  const hint = ofGroup.length > 0 ? helpText(ofGroup) : `${usageText}\`npm run admin -- help\` lists the commands.\n`;
  return { exitCode: 2, stdout: '', stderr: `Unknown command: ${argv.join(' ')}\n${hint}` };
}

/** An error in operators' terms: what clients cannot help is, here, often a variable that differs from the gateway's. */
function textFor(error: GatewayError, { services }: AdminContext): string {
  // An error from a service has no internal text here: the service runs, and is where it was expected.
  const { internal } = error.details;
  if (error.reason === ErrorReason.OVERLOADED && internal !== undefined)
    return `A part of the gateway could not be reached (${internal.replace(/^\[\w+\] /, '')}). It is expected at ${services.join(', ')}: start it, or set RPC_PORT and RPC_HOST, or RPC_URLS, to where it is${missingForTls(internal)}.`;
  if (error.reason === ErrorReason.UNAUTHENTICATED_SERVICE && error.message.includes(signedWithAnotherSecret))
    return `${error.message} Set SERVICE_SECRET to the gateway's, or DATA_DIR to where it keeps its own.`;
  return error.message;
}

/** What this process's environment may lack to reach a gateway that has RPC_TLS_CERT. */
function missingForTls(internal: string): string {
  if (/\bhttp:\S+ http\/2 stream closed/.test(internal))
    return ', or RPC_TLS_CERT and RPC_TLS_KEY to its own: it may speak TLS';
  if (/self-signed certificate|unable to (verify|get)/.test(internal))
    return ', or NODE_EXTRA_CA_CERTS to a file with the authority of its certificate';
  return '';
}

/** The number of positional arguments in a usage: `<id> [number|default] [--page n]` has two. */
const positionalsIn = (usage: string): number => usage.match(/<[^>]+>|\[\w[^\]]*\]/g)?.length ?? 0;

const asksForHelp = (argv: readonly string[]): boolean => argv.includes('--help') || argv.includes('-h');
