import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

const names = new Map<Operation, string>(
  Object.entries(Operation).map(([name, operation]) => [operation, name.toLowerCase()]),
);

/** An operation's name in the public API: that of its enum value in lower case, e.g. `chat_completions`. */
export const operationName = (operation: Operation): string => names.get(operation) ?? 'unspecified';
