import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

// Preloaded into a separate gateway process (NODE_OPTIONS=--import): its metering journal and its uploads are then on a disk that behaves
// as the file DISK_FAULT says, for as long as that file exists. `full`: accepts no bytes; `failing`: cannot confirm what it accepted.

const journal = join(process.env.DATA_DIR!, 'journal');
const uploads = join(process.env.DATA_DIR!, 'uploads');
const fault = (): string =>
  fs.existsSync(process.env.DISK_FAULT!) ? fs.readFileSync(process.env.DISK_FAULT!, 'utf8') : '';
const diskError = (code: string): Error => Object.assign(new Error(`${code}: a fault of the test`), { code });

const { openSync, writeSync, fdatasync, close } = fs;
const opened = new Set<number>();
Object.assign(fs, {
  openSync(path: string, ...rest: [string]) {
    const fd = openSync(path, ...rest);
    if (String(path).startsWith(journal)) opened.add(fd);
    return fd;
  },
  writeSync(fd: number, ...rest: [Buffer, number, number, number]) {
    if (opened.has(fd) && fault() === 'full') throw diskError('ENOSPC');
    return writeSync(fd, ...rest);
  },
  fdatasync(fd: number, done: (error: Error | null) => void) {
    if (opened.has(fd) && fault() === 'failing') setImmediate(done, diskError('EIO'));
    else fdatasync(fd, done);
  },
  close(fd: number, done?: (error: Error | null) => void) {
    opened.delete(fd);
    close(fd, done);
  },
});
const { open } = fs.promises;
Object.assign(fs.promises, {
  async open(path: string, ...rest: [string, number]) {
    const file = await open(path, ...rest);
    if (!String(path).startsWith(uploads)) return file;
    const appendFile = file.appendFile.bind(file);
    return Object.assign(file, {
      async appendFile(bytes: Buffer) {
        if (fault() === 'full') throw diskError('ENOSPC');
        await appendFile(bytes);
      },
    });
  },
});
syncBuiltinESMExports();
