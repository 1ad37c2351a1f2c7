import type { Turn } from './use-conversation.ts';

/** How long a conversation may be that is kept while its tab is loaded anew, in characters: some browsers take no more than 2.5 million. */
const lengthMax = 2_000_000;

/**
 * What is kept of a conversation: its words, and the latest of its images that fit beside them. An answer that was under way does not go on.
 */
export function lastingTurns(turns: readonly Turn[]): readonly Turn[] {
  let left = lengthMax - JSON.stringify(turns.map((turn) => ({ ...turn, images: [] }))).length;
  if (left < 0) return [];
  const fits = (image: string) => {
    if (image.length > left) return false;
    left -= image.length;
    return true;
  };
  return turns
    .toReversed()
    .map(({ images = [], ...said }, index) => {
      const kept = images.filter(fits);
      const interrupted = index === 0 && said.role === 'assistant' ? ['Interrupted'] : [];
      const lost = kept.length < images.length ? ['Not all images could be kept'] : [];
      const notes = [...(said.note === undefined ? interrupted : [said.note]), ...lost];
      return { ...said, images: kept, ...(notes.length > 0 && { note: notes.join(' · ') }) };
    })
    .toReversed();
}
