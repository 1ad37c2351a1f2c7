/** Whose password a mailed link sets; empty if the link does not say it. No other text from a link is shown as the page's own. */
export function emailInLink(): string {
  const email = new URLSearchParams(window.location.hash.slice(1)).get('email') ?? '';
  return /^[^\s@]{1,64}@[^\s@]{1,255}$/.test(email) ? email : '';
}

/** Tells password managers whose password a form sets. */
export function Username({ email }: { email: string }) {
  return email === '' ? null : <input type="email" autoComplete="username" value={email} readOnly hidden />;
}
