/** The message of an error. For a host with several addresses there is one error per address, and the message of the whole is empty. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const { message, errors } = error as Partial<AggregateError>;
  return message === '' && Array.isArray(errors) ? errors.map(messageOf).join('; ') : error.message;
};
