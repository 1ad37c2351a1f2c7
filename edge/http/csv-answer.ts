import { finished, Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { csvTextCell } from '#shared/csv.ts';
import { goneSignal } from './client-gone.ts';

/**
 * Answers with a CSV file of what an RPC streams, as it comes; `open` calls it, until the signal aborts. `rowsOf` makes the rows of a message.
 * A refusal comes with the first message, while the answer can still be an error.
 */
export async function sendCsv<Message>(
  reply: FastifyReply,
  {
    name,
    columns,
    open,
    rowsOf,
  }: {
    name: string;
    columns: readonly string[];
    open: (signal: AbortSignal) => AsyncIterable<Message>;
    rowsOf: (message: Message) => readonly (readonly unknown[])[];
  },
): Promise<FastifyReply> {
  // The RPC may keep the client waiting for its turn, for as long as it likes.
  const messages = open(goneSignal(reply.request.raw.socket))[Symbol.asyncIterator]();
  const first = await messages.next();
  // When the client leaves, the RPC ends. A `finally` in csvText would not run if that is before its first line.
  finished(reply.raw, () => void messages.return?.());
  async function* csvText(): AsyncGenerator<string> {
    yield csvLine(columns);
    for (let next = first; next.done !== true; next = await messages.next())
      yield rowsOf(next.value).map(csvLine).join('');
  }
  return reply
    .header('content-type', 'text/csv; charset=utf-8; header=present')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(Readable.from(csvText()));
}

const csvLine = (cells: readonly unknown[]): string => `${cells.map(csvCell).join(',')}\r\n`;

/** Money comes as JSON.rawJSON and keeps its exact decimals. */
function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? csvTextCell(value) : JSON.stringify(value);
}
