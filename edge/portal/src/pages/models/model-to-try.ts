import type { Model } from '../../api/types.ts';

/** The model to suggest for a first call: one that serves and is not about to retire, if there is one. */
export const modelToTry = (models: readonly Model[]): Model | undefined =>
  models.find((model) => model.is_serviceable && model.deprecated_at === null) ??
  models.find((model) => model.is_serviceable) ??
  models[0];
