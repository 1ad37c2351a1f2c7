import { shellWord } from '#shared/shell-word.ts';
import type { Bootstrapped } from './bootstrap.ts';

/** Printed by the first `npm start` as soon as it has generated a password. */
export const firstLogin = (email: string, password: string): string => `
First sign-in    ${email}  ${password}
                 (this password is shown only once)
`;

/** Printed by `npm start`: where everything is, and calls to paste. */
export function startSummary(started: {
  url: string;
  rpcUrl: string;
  first: Bootstrapped;
  dataDir: string;
  embedded: boolean;
}): string {
  const { url, first } = started;
  const password = first.password ?? 'YOUR_PASSWORD';
  return `
Model Gateway is running.

  API and portal   ${url}
  Internal RPC     ${started.rpcUrl}
  Data             ${started.embedded ? `${started.dataDir} (embedded Postgres)` : 'DATABASE_URL'}
  Sign in as       ${first.email}

Try it: sign in, make a key, and chat.

  TOKEN=$(curl -s ${url}/api/v1/auth/login -H 'content-type: application/json' \\
    -d ${shellWord(JSON.stringify({ email: first.email, password }))} | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')
  KEY=$(curl -s ${url}/api/v1/api-keys -H "authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '{"name":"first key"}' | sed 's/.*"key":"\\([^"]*\\)".*/\\1/')
  curl -s ${url}/v1/chat/completions -H "authorization: Bearer $KEY" -H 'content-type: application/json' \\
    -d '{"model":"sandbox-chat","messages":[{"role":"user","content":"Hello!"}]}'

`;
}
