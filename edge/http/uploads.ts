import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { invalidRequest } from '#shared/errors.ts';
import { FormScanner, fileTooLarge, formBytesMax, formField } from '#shared/multipart.ts';
import type { EdgeApp } from '../routes/routes.ts';

/** A form on its way through the gateway; its body lies in a file. */
export type Upload = {
  path: string;
  contentType: string;
  /** The model which the form names; null when it names none. */
  model: string | null;
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Where the body of this request was spooled to; null for all others. */
    spooledTo: string | null;
  }
}

/**
 * Spools multipart bodies to files, since clients send the file before the fields that say where it goes (openai-contract.md
 * section 4). A file lives as long as its exchange; those of processes that died are removed at the next start.
 */
export async function spooledForms(app: EdgeApp, uploadsDir: string): Promise<void> {
  const directory = join(uploadsDir, String(process.pid));
  await removeOrphans(uploadsDir);
  app.addHook('onClose', () => rm(directory, { recursive: true, force: true }));

  app.decorateRequest('spooledTo', null);
  app.addHook('onRequest', (request, reply, done) => {
    reply.raw.once('close', () => {
      if (request.spooledTo === null) return;
      rm(request.spooledTo, { force: true }).catch((err) =>
        request.log.error({ err, requestId: request.id }, 'an upload was not removed'),
      );
    });
    done();
  });

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('multipart/form-data', async (request: FastifyRequest, payload: IncomingMessage) => {
    if (Number(request.headers['content-length'] ?? 0) > formBytesMax) throw fileTooLarge();
    const path = join(directory, randomUUID());
    await mkdir(directory, { recursive: true, mode: 0o700 });
    request.spooledTo = path;
    const upload = await spool(payload, request.headers['content-type']!, path);
    // Its client may have gone before there was a file to remove.
    if (request.raw.socket.destroyed) await rm(path, { force: true });
    return upload;
  });
}

/** Writes a form to a file while it is checked; what is refused leaves no file. */
async function spool(body: Readable, contentType: string, path: string): Promise<Upload> {
  const scanner = new FormScanner(contentType);
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      scanner.push(chunk);
      // Waiting for the disk is what holds a fast sender back.
      await file.write(chunk);
    }
    const model = formField(scanner.end(), 'model');
    return { path, contentType, model: model === undefined || model.length > 255 ? null : model };
  } catch (error) {
    await rm(path, { force: true });
    throw (error as NodeJS.ErrnoException).code === 'ECONNRESET'
      ? invalidRequest(undefined, 'The request ended before its body was complete.')
      : error;
  } finally {
    await file.close();
  }
}

/** Removes the uploads of processes that are no more. */
async function removeOrphans(uploadsDir: string): Promise<void> {
  const names = await readdir(uploadsDir).catch(() => []);
  for (const name of names) {
    // What is not named as a process is none of ours, should the folder be shared by mistake.
    if (!/^\d+$/.test(name)) continue;
    if (!isAlive(Number(name)) || name === String(process.pid)) {
      await rm(join(uploadsDir, name), { recursive: true, force: true });
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It lives, and is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
