import { mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repairLibraryLinks } from './binaries.ts';

test('library links that a blocked install script did not create are created at the start', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mg-links-'));
  try {
    const native = join(folder, 'native');
    mkdirSync(join(native, 'lib'), { recursive: true });
    writeFileSync(join(native, 'lib/libpq.so.5.18'), '');
    const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }];
    writeFileSync(join(native, 'pg-symlinks.json'), JSON.stringify(links));
    repairLibraryLinks(native);
    repairLibraryLinks(native);
    expect(readlinkSync(join(native, 'lib/libpq.so.5'))).toBe('libpq.so.5.18');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
