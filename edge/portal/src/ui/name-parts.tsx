import { Fragment } from 'react';

/**
 * A technical name, such as `acme/ember-70b` or `model_retirement_announced`, which may wrap after a slash, an underscore or a hyphen. Give
 * its place a minimum width if it may otherwise wrap within a word.
 */
export function NameParts({ name }: { name: string }) {
  return (
    <span>
      {name.split(/(?<=[/_])(?=[^/_])/).map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts of one name.
        <Fragment key={index}>
          {part}
          <wbr />
        </Fragment>
      ))}
    </span>
  );
}
