/** What an error says. A host with several addresses fails once for each of them, and the message of it all is empty. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const { message, errors } = error as Partial<AggregateError>;
  return message === '' && Array.isArray(errors) ? errors.map(messageOf).join('; ') : error.message;
};
