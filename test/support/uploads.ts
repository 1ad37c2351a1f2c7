import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The files of uploads in progress in a gateway's data folder, without the locks of the processes that hold them. */
export const filesOfUploads = (dataDir: string): string[] =>
  readdirSync(join(dataDir, 'uploads'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('lock'))
    .map(({ name }) => name);
