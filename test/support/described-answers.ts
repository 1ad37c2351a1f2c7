import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Answer } from './gateway.ts';

type Response = { content?: Readonly<Record<string, unknown>> };
type Description = {
  paths: Readonly<Record<string, Readonly<Record<string, { responses: Record<string, Response> }>>>>;
};

/** Of the first gateway of this process: all are described alike. */
let description: Promise<{ paths: Description['paths']; ajv: Ajv2020 }> | undefined;

async function readDescription(url: string) {
  const response = await fetch(`${url}/openapi.json`);
  // What is not described is not answered either, though clients must bear it.
  const document = JSON.parse(await response.text(), (_name, value) =>
    value?.type === 'object' && 'properties' in value ? { additionalProperties: false, ...value } : value,
  ) as Description;
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  return { paths: document.paths, ajv: ajv.addSchema(document, 'openapi') };
}

/** Fails when an answer is not what /openapi.json says of its route. Routes that it leaves out may answer anything. */
export async function checkAnswer(url: string, method: string, path: string, answer: Answer): Promise<void> {
  description ??= readDescription(url);
  const { paths, ajv } = await description;
  const [route] = Object.keys(paths)
    .filter((route) => pattern(route).test(path.split('?', 1)[0]!) && paths[route]![method.toLowerCase()] !== undefined)
    // A name in the path that has a route of its own comes before the parameter.
    .sort((a, b) => a.split('{').length - b.split('{').length);
  if (route === undefined) return;
  const { responses } = paths[route]![method.toLowerCase()]!;
  const status = String(answer.status) in responses ? String(answer.status) : 'default';
  const { content = {} } = responses[status]!;
  const type = answer.headers.get('content-type')?.split(';', 1)[0] ?? '';
  const what = `${method} ${path} answered ${answer.status}: ${answer.text}\n/openapi.json`;
  if (answer.text === '' && Object.keys(content).length === 0) return;
  if (!(type in content)) throw new Error(`${what} describes no ${type} as ${status} of ${route}`);
  if (type !== 'application/json') return;
  const pointer = ['paths', route, method.toLowerCase(), 'responses', status, 'content', type, 'schema'];
  const schema = `openapi#/${pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
  const validate = ajv.getSchema(schema) as ValidateFunction;
  if (!validate(answer.json)) throw new Error(`${what} describes it otherwise: ${ajv.errorsText(validate.errors)}`);
}

const pattern = (route: string): RegExp =>
  new RegExp(`^${route.replace(/\{model\}$/, '.+').replace(/\{[^}]+\}/g, '[^/]+')}$`);
