import type { OperationName } from '#shared/operations.ts';
import { readableJson } from '#shared/readable-json.ts';
import { shellWord } from '#shared/shell-word.ts';
import type { ChatRequest } from '../playground/chat-request.ts';

export type Language = 'curl' | 'python' | 'node';

/** A first call of an operation, ready to paste; the key comes from the environment. */
export const snippet = (language: Language, operation: string, model: string, origin: string): string =>
  written(language, calls[operation as OperationName] ?? calls.chat_completions, model, origin);

/** A chat with these fields in its body, beside the model, ready to paste. */
export const chatSnippet = (language: Language, { model, ...fields }: ChatRequest, origin: string): string =>
  written(language, chatCall(fields), model, origin);

function written(language: Language, call: Call, model: string, origin: string): string {
  const base = `${origin}/v1`;
  switch (language) {
    case 'curl':
      return call.curl(base, model);
    case 'python':
      return `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${quote(base)}, api_key=os.environ["MODEL_GATEWAY_KEY"])\n\n${call.python(quote(model))}`;
    case 'node':
      return `import OpenAI from 'openai';\n\nconst client = new OpenAI({\n  baseURL: '${base}',\n  apiKey: process.env.MODEL_GATEWAY_KEY,\n});\n\n${call.node(quote(model))}`;
    default:
      return language satisfies never;
  }
}

type Call = {
  curl: (base: string, model: string) => string;
  python: (model: string) => string;
  node: (model: string) => string;
};

/** What a model wrote could take back what is before it in a terminal, where it is pasted. */
const quote = (value: unknown) => readableJson(JSON.stringify(value));
const toPcm = 'ffmpeg -i speech.mp3 -ac 1 -ar 24000 -f s16le speech.pcm';
const authorization = `-H "Authorization: Bearer $MODEL_GATEWAY_KEY"`;

function jsonCurl(path: string, body: Record<string, unknown>, tail = '') {
  return (base: string, model: string) => {
    const text = shellWord(quote({ model, ...body }));
    return `curl ${base}${path} \\\n  ${authorization} \\\n  -H "Content-Type: application/json" \\\n  -d ${text}${tail}`;
  };
}

const fileCurl = (path: string) => (base: string, model: string) =>
  `curl ${base}${path} \\\n  ${authorization} \\\n  -F file=@speech.mp3 \\\n  --form-string model=${shellWord(model)}`;

function chatCall(fields: Omit<ChatRequest, 'model'>): Call {
  // JSON is code in both languages.
  const codeOf = (sign: string, indent: string): string =>
    Object.entries(fields)
      .map(
        ([name, value]) => `${indent}${name}${sign}${Array.isArray(value) ? listOf(value, indent) : quote(value)},\n`,
      )
      .join('');
  return {
    curl: jsonCurl('/chat/completions', { ...fields, stream: true }),
    python: (model) =>
      `stream = client.chat.completions.create(\n    model=${model},\n${codeOf('=', '    ')}    stream=True,\n)\nfor chunk in stream:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="")`,
    node: (model) =>
      `const stream = await client.chat.completions.create({\n  model: ${model},\n${codeOf(': ', '  ')}  stream: true,\n});\nfor await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');`,
  };
}

/** A list in code, each item on a line of its own. */
const listOf = (items: readonly unknown[], indent: string): string =>
  `[\n${items.map((item) => `${indent}${indent}${quote(item)},\n`).join('')}${indent}]`;

const calls: Readonly<Record<OperationName, Call>> = {
  chat_completions: chatCall({ messages: [{ role: 'user', content: 'Say hello.' }] }),
  completions: {
    curl: jsonCurl('/completions', { prompt: 'Once upon a time', max_tokens: 64 }),
    python: (model) =>
      `answer = client.completions.create(model=${model}, prompt="Once upon a time", max_tokens=64)\nprint(answer.choices[0].text)`,
    node: (model) =>
      `const answer = await client.completions.create({ model: ${model}, prompt: 'Once upon a time', max_tokens: 64 });\nconsole.log(answer.choices[0].text);`,
  },
  embeddings: {
    curl: jsonCurl('/embeddings', { input: ['first text', 'second text'] }),
    python: (model) =>
      `answer = client.embeddings.create(model=${model}, input=["first text", "second text"])\nprint(len(answer.data[0].embedding))`,
    node: (model) =>
      `const answer = await client.embeddings.create({ model: ${model}, input: ['first text', 'second text'] });\nconsole.log(answer.data[0].embedding.length);`,
  },
  images_generations: {
    curl: jsonCurl('/images/generations', { prompt: 'A lighthouse at dusk' }),
    python: (model) =>
      `answer = client.images.generate(model=${model}, prompt="A lighthouse at dusk")\nprint(answer.data[0])`,
    node: (model) =>
      `const answer = await client.images.generate({ model: ${model}, prompt: 'A lighthouse at dusk' });\nconsole.log(answer.data[0]);`,
  },
  audio_transcriptions: {
    curl: fileCurl('/audio/transcriptions'),
    python: (model) =>
      `with open("speech.mp3", "rb") as file:\n    print(client.audio.transcriptions.create(model=${model}, file=file).text)`,
    node: (model) =>
      `import { createReadStream } from 'node:fs';\n\nconst file = createReadStream('speech.mp3');\nconst answer = await client.audio.transcriptions.create({ model: ${model}, file });\nconsole.log(answer.text);`,
  },
  audio_translations: {
    curl: fileCurl('/audio/translations'),
    python: (model) =>
      `with open("speech.mp3", "rb") as file:\n    print(client.audio.translations.create(model=${model}, file=file).text)`,
    node: (model) =>
      `import { createReadStream } from 'node:fs';\n\nconst file = createReadStream('speech.mp3');\nconst answer = await client.audio.translations.create({ model: ${model}, file });\nconsole.log(answer.text);`,
  },
  audio_speech: {
    curl: jsonCurl('/audio/speech', { voice: 'alloy', input: 'Hello there.' }, ' \\\n  -o speech.mp3'),
    python: (model) =>
      `with client.audio.speech.with_streaming_response.create(model=${model}, voice="alloy", input="Hello there.") as answer:\n    answer.stream_to_file("speech.mp3")`,
    node: (model) =>
      `import { writeFile } from 'node:fs/promises';\n\nconst answer = await client.audio.speech.create({ model: ${model}, voice: 'alloy', input: 'Hello there.' });\nawait writeFile('speech.mp3', Buffer.from(await answer.arrayBuffer()));`,
  },
  realtime_transcription: {
    curl: (base) =>
      `# The socket needs a WebSocket client:\n# ${base.replace(/^http/, 'ws')}/realtime?intent=transcription\nwebsocat -H "Authorization: Bearer $MODEL_GATEWAY_KEY" '${base.replace(/^http/, 'ws')}/realtime?intent=transcription'`,
    python: (model) =>
      `import base64\n\nclient.websocket_base_url = str(client.base_url).replace("http", "ws", 1)\nwith client.realtime.connect(extra_query={"intent": "transcription"}) as socket:\n    socket.session.update(session={"type": "transcription", "audio": {"input": {"transcription": {"model": ${model}}, "turn_detection": None}}})\n    # ${toPcm}\n    with open("speech.pcm", "rb") as file:\n        socket.input_audio_buffer.append(audio=base64.b64encode(file.read()).decode())\n    socket.input_audio_buffer.commit()\n    for event in socket:\n        if event.type == "error":\n            raise RuntimeError(event.error.message)\n        if event.type == "conversation.item.input_audio_transcription.completed":\n            print(event.transcript)\n            break`,
    // The OpenAI client's own socket insists on TLS.
    node: (model) =>
      `import { readFile } from 'node:fs/promises';\n\nconst socket = new WebSocket(\`\${client.baseURL.replace('http', 'ws')}/realtime?intent=transcription\`, [\n  'realtime',\n  \`openai-insecure-api-key.\${client.apiKey}\`,\n]);\nconst send = (event) => socket.send(JSON.stringify(event));\nsocket.onopen = async () => {\n  send({\n    type: 'session.update',\n    session: { type: 'transcription', audio: { input: { transcription: { model: ${model} }, turn_detection: null } } },\n  });\n  // ${toPcm}\n  send({ type: 'input_audio_buffer.append', audio: await readFile('speech.pcm', 'base64') });\n  send({ type: 'input_audio_buffer.commit' });\n};\nsocket.onmessage = ({ data }) => {\n  const event = JSON.parse(data);\n  if (event.type === 'error') throw new Error(event.error.message);\n  if (event.type !== 'conversation.item.input_audio_transcription.completed') return;\n  console.log(event.transcript);\n  socket.close();\n};`,
  },
};
