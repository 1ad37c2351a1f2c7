import { firstIdAt } from '../ids.ts';

/** Where a page begins and ends; both ids are outside. */
export type PageById = { afterId: string; endId: string; limit: number };

/** The rows of a time, which their UUIDv7 say, oldest first, in pages of at most `limit`; `read` reads one. */
export async function* pagesById<Row extends { id: string }>(
  { startMs, endMs, limit }: { startMs: number; endMs: number; limit: number },
  read: (page: PageById) => Promise<Row[]>,
): AsyncGenerator<Row[], undefined> {
  const endId = firstIdAt(endMs);
  // No row has the smallest id of a moment, since its version and variant bits are not those of a UUIDv7.
  let afterId = firstIdAt(startMs);
  for (let isMore = true; isMore; ) {
    const rows = await read({ afterId, endId, limit });
    if (rows.length > 0) yield rows;
    afterId = rows.at(-1)?.id ?? afterId;
    isMore = rows.length === limit;
  }
}
