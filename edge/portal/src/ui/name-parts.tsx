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

/** A technical name in a list, whose place is wide enough that the usual parts of a name stay whole. */
export function MonoName({ name }: { name: string }) {
  return (
    <span className="block min-w-24 font-mono text-xs wrap-anywhere">
      <NameParts name={name} />
    </span>
  );
}
