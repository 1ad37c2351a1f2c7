import type { ServerResponse } from 'node:http';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Answer, Piece } from './answer.ts';
import type { FaultKind } from './behaviour.ts';
import type { TruthEntry } from './truth-log.ts';

/** Sends an answer as the entry's behaviour says, and updates the entry with what was really sent. */
export async function respond(
  response: ServerResponse,
  entry: TruthEntry,
  answer: Answer,
  changed: () => void,
): Promise<void> {
  const { behaviour } = entry;
  const { fault, hold } = behaviour;
  const settle = (outcome: TruthEntry['outcome']) => {
    if (entry.outcome !== 'running') return;
    entry.outcome = outcome;
    entry.endedAtMs = performance.now();
    changed();
  };
  const left = () => response.destroyed;
  if (left()) return settle('client-left');
  response.on('close', () => settle(response.writableFinished ? 'completed' : 'client-left'));
  const breakOff = (kind: FaultKind) => {
    // A hanging answer is not over before its client leaves.
    if (kind !== 'hang') settle('faulted');
    applyFault(response, kind, 'stream' in answer);
  };

  if (hold !== undefined && hold.afterChunks === undefined) await hold.until;
  if (behaviour.headDelayMs !== undefined) await delay(behaviour.headDelayMs);
  if (left()) return;
  if (fault !== undefined && fault.afterChunks === undefined) return breakOff(fault.kind);

  entry.status = answer.status;
  response.writeHead(answer.status, {
    ...(answer.contentType !== null && { 'content-type': answer.contentType }),
    ...('body' in answer && { 'content-length': Buffer.byteLength(answer.body.bytes) }),
    ...answer.headers,
    ...behaviour.headers,
    'x-request-id': `sim-${entry.number}`,
  });

  if ('body' in answer) {
    const { bytes } = answer.body;
    count(entry, answer.body);
    if (fault === undefined) return finish(response, bytes, behaviour.trickle);
    const half = Buffer.from(bytes).subarray(0, Math.floor(Buffer.byteLength(bytes) / 2));
    response.write(half, () => breakOff(fault.kind));
    return;
  }

  response.flushHeaders();
  for (const piece of answer.stream) {
    if (hold?.afterChunks === entry.chunks) await hold.until;
    if (behaviour.chunkDelayMs !== undefined) await delay(behaviour.chunkDelayMs);
    if (left()) return;
    if (fault?.afterChunks === entry.chunks) {
      // The chunks before it are still corked in this turn.
      await nextTurn();
      return breakOff(fault.kind);
    }
    count(entry, piece);
    entry.chunks += 1;
    changed();
    if (behaviour.trickle !== undefined) await trickle(response, piece.bytes, behaviour.trickle);
    else if (!response.write(piece.bytes)) await drained(response);
  }
  entry.isWhole = true;
  response.end();
}

function count(entry: TruthEntry, piece: Piece): void {
  entry.generatedTokens += piece.tokens;
  if (piece.text !== undefined) entry.text += piece.text;
  if (piece.usage != null) entry.reportedUsage = piece.usage;
}

async function finish(
  response: ServerResponse,
  bytes: string | Buffer,
  slowly: { bytes: number; delayMs: number } | undefined,
): Promise<void> {
  if (slowly === undefined) {
    response.end(bytes);
    return;
  }
  await trickle(response, bytes, slowly);
  response.end();
}

async function trickle(
  response: ServerResponse,
  bytes: string | Buffer,
  { bytes: pieceBytes, delayMs }: { bytes: number; delayMs: number },
): Promise<void> {
  const all = Buffer.from(bytes);
  for (let offset = 0; offset < all.length && !response.destroyed; offset += pieceBytes) {
    response.write(all.subarray(offset, offset + pieceBytes));
    await delay(delayMs);
  }
}

const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    if (response.destroyed) return resolve();
    const go = () => {
      response.off('drain', go);
      response.off('close', go);
      resolve();
    };
    response.on('drain', go);
    response.on('close', go);
  });

function applyFault(response: ServerResponse, kind: FaultKind, isStream: boolean): void {
  const { socket } = response;
  if (socket === null) return;
  switch (kind) {
    case 'reset':
      socket.resetAndDestroy();
      return;
    case 'cut':
      socket.destroySoon();
      return;
    case 'hang':
      return;
    case 'half-close':
      socket.end();
      return;
    case 'garbage':
      // Neither a status line nor a chunk's length.
      socket.end('\0\xff\xfegarbage, not HTTP\r\n\r\n', 'latin1');
      return;
    case 'bad-sse':
    case 'early-end':
    case 'error-line':
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (!isStream) throw new Error(`the fault "${kind}" is for streams`);
      if (kind === 'bad-sse') response.write('data: {"choices":[{"delta":{"content":\n\nno field here\n\ndata: 42\n\n');
      if (kind === 'error-line')
        response.write('error: {"code":500,"message":"context shift is disabled","type":"server_error"}\n\n');
      response.end();
      return;
    default:
      kind satisfies never;
  }
}
