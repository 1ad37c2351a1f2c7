/** A reason not to start. Its message is the one line that the operator reads, and says what to do. */
export class StartError extends Error {
  override name = 'StartError';
}

/** DATA_DIR refuses a file. `alternatives` are what else would help. */
export function unwritable(dataDir: string, cause: unknown, alternatives = 'or choose another DATA_DIR'): StartError {
  const { code = '' } = cause as NodeJS.ErrnoException;
  const remedy = ['ENOSPC', 'EDQUOT'].includes(code) ? 'make room there' : 'make it writable for this user';
  return new StartError(`DATA_DIR ${dataDir} cannot be written (${code}): ${remedy}, ${alternatives}.`, { cause });
}

/** @throws StartError when the file system refuses to keep something in DATA_DIR. */
export function inDataDir<Opened>(dataDir: string, open: () => Opened): Opened {
  try {
    return open();
  } catch (cause) {
    throw (cause as NodeJS.ErrnoException).syscall === undefined ? cause : unwritable(dataDir, cause);
  }
}
