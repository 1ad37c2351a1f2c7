import {
  type AnswerMessage,
  type AnswerParts,
  imagesIn,
  joined,
  noParts,
  partsOf,
  sourcesBeside,
} from '../playground/answer-parts.ts';

/** More text, such as an image in base64, would keep the browser busy for seconds. */
export const shownLengthMax = 200_000;

type Choice = { message?: AnswerMessage; text?: unknown } | null;
type Result = { choices?: unknown; text?: unknown; data?: unknown; output_format?: unknown; citations?: unknown };

/** The answers of a chat or completion, the words of a transcript, or the images, whichever it is. */
export function answersIn(result: Result): readonly AnswerParts[] {
  const said = listIn<Choice>(result.choices).map((choice) =>
    choice?.message == null
      ? written(choice?.text)
      : joined(partsOf(choice.message), { sources: sourcesBeside(result.citations) }),
  );
  return [...said, written(result.text), { ...noParts, images: imagesIn(result) }]
    .map((answer) => (answer.text.length <= shownLengthMax ? answer : { ...answer, text: '' }))
    .filter(({ text, images }) => text !== '' || images.length > 0);
}

const written = (text: unknown): AnswerParts => ({ ...noParts, text: typeof text === 'string' ? text : '' });

const listIn = <One>(value: unknown): readonly One[] => (Array.isArray(value) ? value : []);
