import { createHash } from 'node:crypto';
import { timestampDate, timestampMs } from '@bufbuild/protobuf/wkt';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { Model } from '#gen/modelgateway/models/v1/model_pb.ts';
import { escapeHtml } from '#shared/safe-text.ts';
import type { Routes } from '../app.ts';
import { asAnonymous } from '../caller.ts';
import { nameInPath } from '../http/name-in-path.ts';

const pageSchema = { content: { 'text/html': { schema: Type.String() } } };

/**
 * The page that `rel="deprecation"` points to: what retires, when, and what comes after. Anybody may read it, so it exists only for public
 * models; for all other names the answer is the same page, byte for byte (service.md, Errors: 404).
 */
export const retirementPageRoutes: Routes = (app, { models, clock }) => {
  app.get(
    '/retirements/*',
    {
      config: { access: { surface: 'public' } },
      schema: { summary: 'Show the page of a retirement', response: { 200: pageSchema, 404: pageSchema } },
    },
    async (request, reply) => {
      const name = nameInPath(request);
      const isName = name !== '' && name.length <= 255;
      const options = asAnonymous(request);
      const [model] = isName ? (await models.listDeprecations({ model: name }, options)).models : [];
      return model === undefined ? sendPage(reply, 404, notFoundPage) : sendPage(reply, 200, page(model, clock.now()));
    },
  );
};

const style = `
:root { color-scheme: light dark; --text: #1a1c20; --soft: #565b66; --line: #d9dce2; --back: #fbfbfc; --accent: #1d4ed8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e9eaee; --soft: #a3a9b6; --line: #343841; --back: #131519; --accent: #8fb0ff; }
}
body { margin: 0; background: var(--back); color: var(--text); font: 1rem/1.6 system-ui, sans-serif; }
main { max-width: 42rem; margin: 0 auto; padding: 3rem 1.25rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
dl { border-top: 1px solid var(--line); margin: 2rem 0; }
dl > div { border-bottom: 1px solid var(--line); padding: .75rem 0; display: grid; gap: .25rem 1.5rem; }
@media (min-width: 36rem) { dl > div { grid-template-columns: 9rem 1fr; } }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
a { color: var(--accent); }
`;

const styleHash = createHash('sha256').update(style).digest('base64');

/** Only the page's own style is allowed: a name that an operator typed can never become code. */
const headers = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  // Dates may change.
  'cache-control': 'no-cache',
};

const sendPage = (reply: FastifyReply, status: number, html: string): FastifyReply =>
  reply.code(status).headers(headers).send(html);

function page(model: Model, nowMs: number): string {
  const { deprecatedAt, sunsetAt, replacementModelName, retirementNote } = model.retirement!;
  const name = `<code>${escapeHtml(model.name)}</code>`;
  const isRetired = sunsetAt !== undefined && timestampMs(sunsetAt) <= nowMs;
  const headline =
    sunsetAt === undefined
      ? `${name} will be retired`
      : `${name} ${isRetired ? 'was retired' : 'retires'} on ${day(timestampDate(sunsetAt))}`;
  const effect = isRetired
    ? 'Requests that name this model get the status <code>410</code> and the error code <code>model_sunset</code>. Retrying does not help.'
    : `Until then the model serves every request unchanged. ${
        sunsetAt === undefined
          ? 'No date is set yet; once it is, users of the model are told by email.'
          : 'The date may move; read it from the <code>Sunset</code> header or from this page instead of hard-coding it.'
      } From then on, requests that name it get the status <code>410</code> and the error code <code>model_sunset</code>.`;
  const facts = [
    ['Model', `${escapeHtml(model.displayName)} (${name})`],
    ['Announced', moment(timestampDate(deprecatedAt!))],
    [
      isRetired ? 'Retired' : 'Retires',
      sunsetAt === undefined ? 'No date is set yet.' : moment(timestampDate(sunsetAt)),
    ],
    replacementModelName === ''
      ? ['Successor', `There is none. <bdi>${escapeHtml(retirementNote)}</bdi>`]
      : ['Successor', `<code>${escapeHtml(replacementModelName)}</code>, to be used as <code>model</code>`],
  ];
  return document(
    `Retirement of ${model.name}`,
    `<h1>${headline}</h1>
<p>${effect}</p>
<dl>
${facts.map(([term, text]) => `<div><dt>${term}</dt><dd>${text}</dd></div>`).join('\n')}
</dl>`,
  );
}

const document = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;

const day = (date: Date): string =>
  `<time datetime="${date.toISOString()}">${date.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' })}</time>`;

const moment = (date: Date): string => `${day(date)}, ${date.toISOString().slice(11, 16)} UTC`;

const notFoundPage = document(
  'Not found',
  `<h1>Not found</h1>
<p>No public model with this name is being retired or was retired.</p>
<p>Is it a private model of your organization? Sign in to read about it under <a href="/models">Models</a>.</p>`,
);
