/** A reason not to start. Its message is the one line that the operator reads, and says what to do. */
export class StartError extends Error {
  override name = 'StartError';
}
