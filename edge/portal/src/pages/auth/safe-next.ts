/**
 * Where to go after signing in: only an address inside this portal, since a link from someone else must not lead out of it. Browsers read a
 * backslash as a slash and drop tabs and line breaks.
 */
export function safeNext(next: string | null): string {
  if (next === null || !/^\/(?!\/)[^\\\t\r\n]*$/.test(next)) return '/';
  return next.startsWith('/sign-in') ? '/' : next;
}
