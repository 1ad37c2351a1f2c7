import { randomUUID } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { finished, type Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { ErrorReason, gatewayError, hasReason, invalidRequest } from '#shared/errors.ts';
import { lockFolder, lockNewFolder, removedPrefix } from '#shared/folder-lock.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { FormScanner, fileTooLarge, formBytesMax, formField } from '#shared/multipart.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { inDataDir } from '#shared/start-error.ts';
import type { EdgeApp } from '../app.ts';
import { freeBytesAt, UploadRoom } from '../guards/upload-room.ts';

/** A form on its way through the gateway; its body is in a file. */
export type Upload = {
  path: string;
  contentType: string;
  /** The model which the form names; undefined when it names none. */
  model: string | undefined;
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Where the body of this request was spooled to; null for all others. */
    spooledTo: string | null;
  }
}

type SpoolOptions = {
  /** Called for an upload that is refused for lack of room on the disk. */
  onNoRoom?: () => void;
  /** How many bytes are free on the disk of a folder. */
  freeBytes?: (folder: string) => Promise<number>;
};

/**
 * Spools multipart bodies to files, since clients send the file before the fields that say where it goes (openai-contract.md section 4). A
 * file lives as long as its exchange; those left by dead processes are removed at the next start.
 */
export async function spooledForms(
  app: EdgeApp,
  uploadsDir: string,
  { onNoRoom, freeBytes = freeBytesAt }: SpoolOptions = {},
): Promise<void> {
  let folder = inDataDir(dirname(uploadsDir), () => lockNewFolder(uploadsDir));
  removeOrphans(uploadsDir, app.log);
  app.addHook('onClose', async () => folder.lock.removeFolder());
  const room = new UploadRoom();
  // Never as over: on a full disk there is often room for a small one.
  const failures = new RepeatedFailures('writing uploads to DATA_DIR', app.log, 0);

  /** Never rejects: what became of the upload is known without it. */
  const remove = async (path: string, request: FastifyRequest): Promise<void> => {
    try {
      await rm(path, { force: true });
    } catch (err) {
      request.log.error({ err, requestId: request.id }, 'the file of an upload could not be removed');
    }
    room.giveBack(path);
  };

  /** A file in this process's folder, which is made anew if somebody has deleted it. */
  const newFile = async (): Promise<{ path: string; file: FileHandle }> => {
    const { path: directory, lock } = folder;
    const path = join(directory, randomUUID());
    try {
      return { path, file: await open(path, 'wx', 0o600) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    // Unless another upload has just done so.
    if (folder.lock === lock) {
      folder = lockNewFolder(uploadsDir);
      lock.release();
    }
    return newFile();
  };

  app.decorateRequest('spooledTo', null);
  app.addHook('onRequest', (request, reply, done) => {
    reply.raw.once('close', () => {
      if (request.spooledTo !== null) void remove(request.spooledTo, request);
    });
    done();
  });

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('multipart/form-data', async (request: FastifyRequest, payload: IncomingMessage) => {
    if (Number(request.headers['content-length'] ?? 0) > formBytesMax) throw fileTooLarge();
    const spooling = onDisk(newFile()).then(async ({ path, file }) => {
      request.spooledTo = path;
      const write = async (bytes: Buffer): Promise<void> => {
        room.take(path, request.principal?.userId ?? '', bytes.length, await onDisk(freeBytes(dirname(path))));
        await onDisk(file.appendFile(bytes));
      };
      try {
        const form = await spool(payload, request.headers['content-type']!, write);
        // Some file systems say only now that they had no room.
        await onDisk(file.close());
        return { path, ...form };
      } catch (error) {
        await file.close().catch(() => {});
        await remove(path, request);
        throw error;
      }
    });
    const upload = await spooling.catch((error: unknown) => {
      if (!hasReason(error, ErrorReason.OVERLOADED)) throw error;
      // Other 503s pass without anybody's help; for this one operators have to make room.
      if (error.cause !== undefined) failures.failed(error.cause, 'failed; their calls are refused');
      else onNoRoom?.();
      throw error;
    });
    // The client may have gone before there was a file to remove.
    if (request.raw.socket.destroyed) await remove(upload.path, request);
    return upload;
  });
}

/** Writes a form while checking it. */
async function spool(
  body: Readable,
  contentType: string,
  write: (bytes: Buffer) => Promise<void>,
): Promise<Omit<Upload, 'path'>> {
  try {
    const scanner = new FormScanner(contentType);
    for await (const bytes of arrivals(body)) {
      scanner.push(bytes);
      // Waiting for the disk holds back a fast sender.
      await write(bytes);
    }
    return { contentType, model: formField(scanner.end(), 'model') };
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ECONNRESET'
      ? invalidRequest(undefined, 'The request ended before its body was complete.')
      : error;
  }
}

/**
 * How many bytes may gather while the disk is busy. A turn of the event loop brings up to 2 MiB, or 350 KB if each byte is framed as a chunk:
 * those must not wait in the stream, which keeps all pieces apart, at some two hundred bytes for one of a single byte.
 */
const gatheredBytesMax = 512 * 1024;

/**
 * Yields what has arrived of a body since the last time, in one piece: a single byte would cost as much. The body is not destroyed, since
 * the rest of a refused one has to be read anyway.
 */
async function* arrivals(body: Readable): AsyncGenerator<Buffer> {
  const arrived = new GrowingBuffer();
  let isOver = false;
  let failure: Error | null | undefined;
  let wake = (): void => {};
  const onData = (piece: Buffer): void => {
    arrived.appendWhole(piece);
    if (arrived.length >= gatheredBytesMax) body.pause();
    wake();
  };
  const stopWaiting = finished(body, (error) => {
    isOver = true;
    failure = error;
    wake();
  });
  body.on('data', onData);
  try {
    for (;;) {
      if (failure) throw failure;
      if (arrived.length > 0) {
        yield arrived.take();
        body.resume();
      } else if (isOver) return;
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    stopWaiting();
    body.off('data', onData).pause();
  }
}

/** A failing disk may recover, as when it was full: the client is told to come again. */
async function onDisk<Done>(work: Promise<Done>): Promise<Done> {
  try {
    return await work;
  } catch (cause) {
    throw gatewayError(ErrorReason.OVERLOADED, 'The gateway cannot take uploads at the moment. Try again shortly.', {
      cause,
      internal: `an upload could not be written to DATA_DIR: ${(cause as Error).message}`,
    });
  }
}

/** The names of processes' folders, including those whose removal was not finished. Anything else in the directory is not ours. */
const ownFolder = new RegExp(`^(${removedPrefix})?\\d+-[0-9a-f]{12}$`);

/** Removes the uploads of dead processes. One that cannot be, as another user's, is no reason not to start. */
function removeOrphans(uploadsDir: string, logger: Pick<FailureLogger, 'warn'>): void {
  for (const name of readdirSync(uploadsDir)) {
    if (!ownFolder.test(name)) continue;
    const path = join(uploadsDir, name);
    try {
      if (name.startsWith(removedPrefix)) rmSync(path, { recursive: true, force: true });
      else lockFolder(path)?.removeFolder();
    } catch (err) {
      logger.warn({ err, path }, 'the uploads of an ended process could not be removed');
    }
  }
}
