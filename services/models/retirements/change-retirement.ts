import { changeCatalog } from '../catalog/change-catalog.ts';
import type { ModelsDeps } from '../deps.ts';

/** A change of the catalog about which users may have to be told, or told something else than was planned. */
export const changeRetirement = async <Answer>(
  deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'onRetirementChange'>,
  ...rest: Parameters<typeof changeCatalog<Answer>> extends [unknown, ...infer Rest] ? Rest : never
): Promise<Answer> => {
  const answer = await changeCatalog<Answer>(deps, ...rest);
  deps.onRetirementChange();
  return answer;
};
