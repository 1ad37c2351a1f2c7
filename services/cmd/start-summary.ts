import type { Bootstrapped } from './bootstrap.ts';

/** What `npm start` prints: where everything is, the first login, and calls to paste. */
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
${
  first.password === undefined
    ? `  Sign in as       ${first.email}\n`
    : `  First sign-in    ${first.email}  ${first.password}\n                   (the password is shown this once)\n`
}
Try it: sign in, make a key, and chat.

  TOKEN=$(curl -s ${url}/api/v1/auth/login -H 'content-type: application/json' \\
    -d '{"email":"${first.email}","password":"${password}"}' | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')
  KEY=$(curl -s ${url}/api/v1/api-keys -H "authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '{"name":"first key"}' | sed 's/.*"key":"\\([^"]*\\)".*/\\1/')
  curl -s ${url}/v1/chat/completions -H "authorization: Bearer $KEY" -H 'content-type: application/json' \\
    -d '{"model":"sandbox-chat","messages":[{"role":"user","content":"Hello!"}]}'

`;
}
