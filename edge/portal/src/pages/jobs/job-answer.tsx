import { useMemo } from 'react';
import { Card } from '../../ui/card.tsx';
import { AnswerImages, Sources } from '../playground/answer-extras.tsx';
import { AnswerText } from '../playground/answer-text.tsx';
import { answersIn } from './answers.ts';

/** What a result in JSON says and shows, so that nobody has to read it between braces. */
export function JobAnswer({ result }: { result: object }) {
  const answers = useMemo(() => answersIn(result), [result]);
  if (answers.length === 0) return null;
  return (
    <Card title="Answer">
      <div className="grid grid-cols-[minmax(0,1fr)] justify-items-start gap-4">
        {answers.map(({ text, images, sources }, index) => (
          <div
            // biome-ignore lint/suspicious/noArrayIndexKey: a result never changes.
            key={index}
            className="grid max-w-full grid-cols-[minmax(0,1fr)] justify-items-start gap-3 wrap-anywhere"
          >
            {text !== '' && <AnswerText text={text} growing={false} />}
            <AnswerImages images={images} />
            <Sources sources={sources} />
          </div>
        ))}
      </div>
    </Card>
  );
}
