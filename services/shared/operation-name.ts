import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

const names = new Map<Operation, string>(
  Object.entries(Operation).map(([name, operation]) => [operation, name.toLowerCase()]),
);

/** An operation as the public API names it: its enum value's name in lower case, e.g. `chat_completions`. */
export const operationName = (operation: Operation): string => names.get(operation) ?? 'unspecified';
