import type { StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { HeldBytes } from '#shared/held-bytes.ts';

/** The part of the free disk that uploads may take: without room for the journal no call is served, and Postgres may be there, too. */
const diskShare = 1 / 4;

/** How many bytes are free on the disk of a folder; infinity where the file system does not say. */
export const freeBytesAt = async (folder: string): Promise<number> => freeBytesOf(await statfs(folder));

/** `frsize` is what its blocks are counted in; `bsize`, in which it would rather be written, may be a mebibyte, as in Docker on a Mac. */
export const freeBytesOf = ({ blocks, bavail, frsize }: Pick<StatsFs, 'blocks' | 'bavail' | 'frsize'>): number =>
  blocks === 0 ? Number.POSITIVE_INFINITY : bavail * frsize;

/**
 * The room on the disk that the files of uploads may take, shared fairly between users. It is taken as they are written: a client may
 * announce what it never sends. A file that is the only one always has room.
 */
export class UploadRoom {
  readonly #held = new HeldBytes();
  readonly #files = new Map<string, { userId: string; bytes: number }>();

  /** Takes room for more of a file, when this many bytes are free. @throws GatewayError OVERLOADED when there is none. */
  take(path: string, userId: string, bytes: number, freeBytes: number): void {
    const before = this.#files.get(path)?.bytes ?? 0;
    if (this.#held.total > before && !this.#held.hasRoom(userId, bytes, freeBytes * diskShare)) {
      throw gatewayError(ErrorReason.OVERLOADED, 'Too many files are being uploaded at once. Try again shortly.');
    }
    this.#held.add(userId, bytes);
    this.#files.set(path, { userId, bytes: before + bytes });
  }

  /** The file is gone. */
  giveBack(path: string): void {
    const file = this.#files.get(path);
    if (file === undefined) return;
    this.#files.delete(path);
    this.#held.add(file.userId, -file.bytes);
  }
}
