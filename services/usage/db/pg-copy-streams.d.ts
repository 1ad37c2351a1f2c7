/** What Usage needs of a package that comes without types. */
declare module 'pg-copy-streams' {
  import type { Writable } from 'node:stream';
  import type { Submittable } from 'pg';

  /** Give it to `client.query`; it finishes once the server has taken all that was written. */
  export function from(text: string): Writable & Submittable;
}
