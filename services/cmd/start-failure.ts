import { StartError } from '#shared/start-error.ts';

/** Why a program could not start, in one line, when whoever started it can help; undefined otherwise. */
export function startFailure(error: NodeJS.ErrnoException): string | undefined {
  if (error instanceof StartError) return error.message;
  // As after an update of the sources alone. A missing file of our own would be called a module.
  if (error.code === 'ERR_MODULE_NOT_FOUND' && error.message.startsWith('Cannot find package'))
    return `${error.message}: install the packages of this version with \`npm ci\`.`;
  return undefined;
}
