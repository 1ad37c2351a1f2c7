/** The part that Usage needs of a package without types. */
declare module 'pg-copy-streams' {
  import type { Writable } from 'node:stream';
  import type { Submittable } from 'pg';

  /** Pass it to `client.query`; it finishes once the server has received everything written. */
  export function from(text: string): Writable & Submittable;
}
