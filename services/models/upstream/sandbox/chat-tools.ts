import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { JsonObject } from './fields.ts';
import { type Effort, effortForAnswer, valueForSchema } from './schema-value.ts';

/**
 * A call which the answer makes; `input` is the arguments' JSON text, or a custom tool's free text. A `function_call` is one of `functions`,
 * the deprecated form of tools.
 */
export type ToolCall = { type: 'function' | 'custom' | 'function_call'; name: string; input: string };

/** OpenAI's limit. */
const toolsMax = 128;
/** In how much of the user's text tools are looked for by name. */
const namingLengthMax = 20_000;

type Tool = { type: ToolCall['type']; name: string; schema: unknown };

/** The request's tools; where it has none, its `functions`. */
export function readTools(json: JsonObject): Tool[] {
  if (json.tools == null && json.functions != null) {
    return readNamed(json.functions, functionOf, 'functions', 'named functions');
  }
  return readNamed(json.tools ?? [], toolOf, 'tools', 'named functions or custom tools');
}

function readNamed(value: unknown, read: (item: unknown) => Tool | null, param: string, items: string): Tool[] {
  const tools = Array.isArray(value) ? value.map(read) : [null];
  if (!tools.every((tool) => tool !== null)) {
    throw new Refusal(`Invalid value for '${param}': expected an array of ${items}.`, { param, code: 'invalid_value' });
  }
  if (tools.length > toolsMax) {
    throw new Refusal(`Invalid value for '${param}': expected at most ${toolsMax}, not ${tools.length}.`, {
      param,
      code: 'array_above_max_length',
    });
  }
  return tools;
}

/**
 * The calls of an answer: what `tool_choice` demands, else the tools which the user's text names. A tool's result as the last
 * message ends the round, so that agent loops end. At most one call without `parallel_tool_calls`, and of `functions`.
 */
export function toolCallsFor(json: JsonObject, tools: readonly Tool[], userText: string, answered: boolean) {
  const ofFunctions = tools[0]?.type === 'function_call';
  const chosen = ofFunctions
    ? chooseFunctions(json.function_call ?? 'auto', tools, userText, answered)
    : chooseTools(json.tool_choice ?? 'auto', tools, userText, answered);
  const calls = ofFunctions || json.parallel_tool_calls === false ? chosen.slice(0, 1) : chosen;
  const effort = effortForAnswer();
  return calls.map((tool) => callOf(tool, effort));
}

function chooseFunctions(choice: unknown, functions: readonly Tool[], userText: string, answered: boolean) {
  if (choice === 'none' || choice === 'auto') return chooseTools(choice, functions, userText, answered);
  const named = isObject(choice) ? functions.filter(({ name }) => name === choice.name) : [];
  if (named.length > 0) return named;
  throw new Refusal("Invalid value for 'function_call': expected 'none', 'auto' or the name of one of 'functions'.", {
    param: 'function_call',
    code: 'invalid_value',
  });
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
    const names = new Set(allowed.tools.map((tool) => toolOf(tool)?.name));
    const remaining = tools.filter((tool) => names.has(tool.name));
    return chooseTools(allowed.mode ?? 'auto', remaining, userText, answered);
  }
  const text = userText.slice(0, namingLengthMax).toLowerCase();
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

function functionOf(description: unknown): Tool | null {
  const tool = toolOf({ type: 'function', function: description });
  return tool && { ...tool, type: 'function_call' };
}

const callOf = ({ type, name, schema }: Tool, effort: Effort): ToolCall => ({
  type,
  name,
  // Arguments are an object, whether the schema says so or not.
  input:
    type === 'custom' ? 'sandbox' : JSON.stringify(valueForSchema({ type: 'object', ...(schema as object) }, effort)),
});

/** The calls as they stand in a message. */
export function wireCalls(calls: readonly ToolCall[], id: string, choice: number): object {
  const [first] = calls;
  if (first === undefined) return {};
  if (first.type === 'function_call') return { function_call: { name: first.name, arguments: first.input } };
  return { tool_calls: calls.map((call, index) => wireCall(call, id, choice, index)) };
}

/** The calls as the deltas of a stream: each one's name, then its input in parts. */
export function callDeltas(calls: readonly ToolCall[], id: string, choice: number): object[] {
  return calls.flatMap((call, index): object[] => {
    const parts = inputParts(call.input);
    if (call.type === 'function_call') {
      const pieces = [{ name: call.name, arguments: '' }, ...parts.map((part) => ({ arguments: part }))];
      return pieces.map((piece) => ({ function_call: piece }));
    }
    const member = call.type === 'function' ? 'arguments' : 'input';
    const start = wireCall({ ...call, input: '' }, id, choice, index);
    const pieces = [start, ...parts.map((part) => ({ [call.type]: { [member]: part } }))];
    return pieces.map((piece) => ({ tool_calls: [{ index, ...piece }] }));
  });
}

/** The input in parts of whole characters: half a surrogate pair would be lost in clients that count in code points. */
const inputParts = (input: string): string[] => input.match(/.{1,16}/gsu) ?? [];

function wireCall({ type, name, input }: ToolCall, id: string, choice: number, index: number) {
  const callId = `call_${id.slice(0, 16)}_${choice}_${index}`;
  return type === 'function'
    ? { id: callId, type, function: { name, arguments: input } }
    : { id: callId, type, custom: { name, input } };
}
