/** Whose password a mailed link sets; empty if the link does not say it. */
export const emailInLink = (): string => new URLSearchParams(window.location.hash.slice(1)).get('email') ?? '';

/** Tells password managers whose password a form sets. */
export function Username({ email }: { email: string }) {
  return email === '' ? null : <input type="email" autoComplete="username" value={email} readOnly hidden />;
}
