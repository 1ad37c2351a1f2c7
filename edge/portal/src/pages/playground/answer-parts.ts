/** What is told of an image: where it is, which may be the image itself. */
type Image = { image_url?: string | { url?: string } };
/** A part of a content that comes in parts, such as Mistral's, whose reasoning is a part with parts of its own. */
type Part = Image & { text?: string; thinking?: readonly Part[] };
type Annotation = { url_citation?: { url?: string; title?: string } };

/** A message of a model, or the piece of it that an event of a stream brings, with what servers add to OpenAI's fields. */
export type AnswerMessage = {
  content?: string | readonly Part[] | null;
  refusal?: string | null;
  /** The name that servers agree on by now, and their older one, under which some write the same once more. */
  reasoning?: string | null;
  reasoning_content?: string | null;
  /** Those that a model drew. */
  images?: readonly Image[] | null;
  /** Where a model that searches has found what it says. */
  annotations?: readonly Annotation[] | null;
};

/** A page that an answer refers to; one without a title has an empty one. */
export type Source = { url: string; title: string };

/** What there is to show of a message or of a piece of one. */
export type AnswerParts = { text: string; reasoning: string; images: readonly string[]; sources: readonly Source[] };

export function partsOf({ content, refusal, reasoning, reasoning_content, ...more }: AnswerMessage): AnswerParts {
  const parts = listOf<Part>(content);
  const thinking = parts.flatMap((part) => listOf<Part>(part.thinking));
  return {
    text: textOf(content) + parts.map((part) => textOf(part.text)).join('') + textOf(refusal),
    reasoning: textOf(reasoning) || textOf(reasoning_content) || thinking.map(({ text }) => textOf(text)).join(''),
    images: [...parts, ...listOf<Image>(more.images)].flatMap(({ image_url: image }) => {
      const url = typeof image === 'object' ? textOf(image?.url) : textOf(image);
      return url === '' ? [] : [url];
    }),
    sources: listOf<Annotation>(more.annotations).flatMap(({ url_citation: found }) => {
      const url = textOf(found?.url);
      return url === '' ? [] : [{ url, title: textOf(found?.title) }];
    }),
  };
}

/** The sources that Perplexity and xAI list beside the choices, by whose places in the list the text names them. */
export const sourcesBeside = (citations: unknown): readonly Source[] =>
  (Array.isArray(citations) ? citations : []).flatMap((url: unknown) =>
    typeof url === 'string' ? [{ url, title: '' }] : [],
  );

/** What the images operation answers, as far as it is images: included, or where they are. */
export const imagesIn = (result: { data?: unknown; output_format?: unknown }): readonly string[] =>
  listOf<{ b64_json?: unknown; url?: unknown }>(result.data).flatMap(({ b64_json: included, url }) =>
    typeof included === 'string'
      ? [`data:image/${textOf(result.output_format) || 'png'};base64,${included}`]
      : typeof url === 'string'
        ? [url]
        : [],
  );

export const noParts: AnswerParts = { text: '', reasoning: '', images: [], sources: [] };

/** An answer with another piece of it. A source may be told with several pieces, or with each. */
export const joined = (answer: AnswerParts, piece: Partial<AnswerParts>): AnswerParts => ({
  text: answer.text + (piece.text ?? ''),
  reasoning: answer.reasoning + (piece.reasoning ?? ''),
  images: [...answer.images, ...(piece.images ?? [])],
  sources: [
    ...answer.sources,
    ...(piece.sources ?? []).filter(({ url }) => !answer.sources.some((known) => known.url === url)),
  ],
});

/** Whether there is nothing of an answer yet: sources alone are none. */
export const isEmpty = ({ text, reasoning, images }: AnswerParts): boolean =>
  text === '' && reasoning === '' && images.length === 0;

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The objects in a list that a server may also leave out, or have filled with something else. */
const listOf = <Item extends object>(value: unknown): readonly Item[] =>
  Array.isArray(value) ? value.filter((item): item is Item => typeof item === 'object' && item !== null) : [];
