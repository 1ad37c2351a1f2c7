import { useGet } from '../../api/hooks.ts';
import type { Model } from '../../api/types.ts';

/** How often a page that stays open asks what has become of its models: retirements are announced, moved and withdrawn meanwhile. */
const refetchIntervalMs = 30_000;

/** The models that the user may use, as they are by now. */
export const useModels = () => useGet<{ data: Model[] }>('/models', undefined, { refetchIntervalMs });

/** One of them. */
export const useModel = (id: string) =>
  useGet<Model>(`/models/${encodeURIComponent(id)}`, undefined, { keepPrevious: false, refetchIntervalMs });
