import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { JsonObject } from './fields.ts';
import { valueForSchema } from './schema-value.ts';

/** A call which the answer makes; `input` is the arguments' JSON text, or a custom tool's free text. */
export type ToolCall = { type: 'function' | 'custom'; name: string; input: string };

type Tool = { type: ToolCall['type']; name: string; schema: unknown };

/** The request's tools as they are, checked to be named. */
export function readTools(json: JsonObject): JsonObject[] {
  const tools = json.tools ?? [];
  if (!Array.isArray(tools) || !tools.every((tool) => toolOf(tool) !== null)) {
    throw new Refusal("Invalid value for 'tools': expected an array of named functions or custom tools.", {
      param: 'tools',
      code: 'invalid_value',
    });
  }
  return tools;
}

/**
 * The calls of an answer: what `tool_choice` demands, else the tools which the user's text names. A tool's result as the last
 * message ends the round, so that agent loops end. At most one call without `parallel_tool_calls`.
 */
export function toolCallsFor(json: JsonObject, tools: readonly JsonObject[], userText: string, answered: boolean) {
  const known = tools.map(toolOf).filter((tool) => tool !== null);
  const chosen = chooseTools(json.tool_choice ?? 'auto', known, userText, answered);
  const calls = json.parallel_tool_calls === false ? chosen.slice(0, 1) : chosen;
  return calls.map(callOf);
}

function chooseTools(choice: unknown, tools: readonly Tool[], userText: string, answered: boolean): Tool[] {
  if (isObject(choice)) {
    const { name, type } = toolOf(choice) ?? {};
    if (type !== undefined) {
      const tool = tools.find((candidate) => candidate.name === name && candidate.type === type);
      if (tool === undefined) throw badChoice(`the tool '${name}' is not in 'tools'`);
      return [tool];
    }
    // {type: 'allowed_tools', allowed_tools: {mode, tools}} narrows the list and then works as its mode says.
    const allowed = choice.allowed_tools;
    if (!isObject(allowed) || !Array.isArray(allowed.tools)) throw badChoice('the object is not understood');
    const names = allowed.tools.map((tool) => toolOf(tool)?.name);
    const remaining = tools.filter((tool) => names.includes(tool.name));
    return chooseTools(allowed.mode ?? 'auto', remaining, userText, answered);
  }
  const text = userText.toLowerCase();
  const named = tools.filter(({ name }) => text.includes(name.toLowerCase()) || text.includes(spoken(name)));
  switch (choice) {
    case 'none':
      return [];
    case 'auto':
      return answered ? [] : named;
    case 'required':
      if (tools.length === 0) throw badChoice("'required' needs 'tools'");
      return named.length > 0 ? named : tools.slice(0, 1);
    default:
      throw badChoice("expected 'none', 'auto', 'required' or an object");
  }
}

const badChoice = (what: string): Refusal =>
  new Refusal(`Invalid value for 'tool_choice': ${what}.`, { param: 'tool_choice', code: 'invalid_value' });

/** `get_weather` and `getWeather` as somebody would write them in a sentence. */
const spoken = (name: string): string =>
  name
    .replace(/[_-]+/g, ' ')
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase();

function toolOf(tool: unknown): Tool | null {
  if (!isObject(tool) || (tool.type !== 'function' && tool.type !== 'custom')) return null;
  const description = tool[tool.type];
  if (!isObject(description) || typeof description.name !== 'string' || description.name === '') return null;
  return { type: tool.type, name: description.name, schema: description.parameters };
}

const callOf = ({ type, name, schema }: Tool): ToolCall => ({
  type,
  name,
  input: type === 'custom' ? 'sandbox' : JSON.stringify(valueForSchema(schema ?? { type: 'object' })),
});

/** A tool call as it stands in a message. */
export function wireCall({ type, name, input }: ToolCall, id: string, choice: number, index: number) {
  const callId = `call_${id.slice(0, 16)}_${choice}_${index}`;
  return type === 'function'
    ? { id: callId, type, function: { name, arguments: input } }
    : { id: callId, type, custom: { name, input } };
}
