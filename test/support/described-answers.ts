import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

type Response = { content?: Readonly<Record<string, unknown>> };
type Description = {
  paths: Readonly<Record<string, Readonly<Record<string, { responses: Record<string, Response> }>>>>;
};

/** An answer; `type` is its content type with parameters, if there is one. */
type DescribedAnswer = { status: number; type: string | null | undefined; text: string };
type CheckAnswer = (method: string, path: string, answer: DescribedAnswer) => void;

/** From the first gateway of this process: all have the same description. */
let ofGateway: Promise<CheckAnswer> | undefined;

/** Fails if an answer of a gateway is not what its /openapi.json says about the route. */
export async function checkAnswer(url: string, ...answer: Parameters<CheckAnswer>): Promise<void> {
  ofGateway ??= fetch(`${url}/openapi.json`).then(async (response) => checkDescribed(await response.json()));
  (await ofGateway)(...answer);
}

/** Fails if an answer is not what the description says about its route. Routes that it leaves out may answer anything. */
export function checkDescribed(description: unknown): CheckAnswer {
  // Anything undescribed may not be sent either, though clients must tolerate it.
  const document = JSON.parse(JSON.stringify(description), (_name, value) =>
    value?.type === 'object' && 'properties' in value ? { additionalProperties: false, ...value } : value,
  ) as Description;
  const { paths } = document;
  const ajv = new Ajv2020({
    strict: false,
    validateFormats: false,
    allErrors: true,
    // The description has a test of its own.
    meta: false,
    validateSchema: false,
  }).addSchema(document, 'openapi');
  const routes = Object.keys(paths)
    // A name in the path that has its own route takes precedence over a parameter.
    .sort((a, b) => a.split('{').length - b.split('{').length)
    .map((route) => ({ route, pattern: pattern(route) }));
  return (method, path, answer) => {
    const route = routes.find(
      ({ route, pattern }) => pattern.test(path.split('?', 1)[0]!) && paths[route]![method.toLowerCase()] !== undefined,
    )?.route;
    if (route === undefined) return;
    const { responses } = paths[route]![method.toLowerCase()]!;
    const status = String(answer.status) in responses ? String(answer.status) : 'default';
    const { content = {} } = responses[status]!;
    const type = answer.type?.split(';', 1)[0] ?? '';
    const what = `${method} ${path} answered ${answer.status}: ${answer.text}\n/openapi.json`;
    if (answer.text === '' && Object.keys(content).length === 0) return;
    if (!(type in content || type.replace(/[^/]+$/, '*') in content))
      throw new Error(`${what} describes no ${type} as ${status} of ${route}`);
    if (type !== 'application/json') return;
    const pointer = ['paths', route, method.toLowerCase(), 'responses', status, 'content', type, 'schema'];
    const schema = `openapi#/${pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
    const validate = ajv.getSchema(schema) as ValidateFunction;
    if (!validate(JSON.parse(answer.text))) {
      throw new Error(`${what} describes it otherwise: ${ajv.errorsText(validate.errors)}`);
    }
  };
}

const pattern = (route: string): RegExp =>
  new RegExp(`^${route.replace(/\{model\}$/, '.+').replace(/\{[^}]+\}/g, '[^/]+')}$`);
