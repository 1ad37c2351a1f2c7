import type { Query } from '../../api/client.ts';
import { type GetOptions, useGet } from '../../api/hooks.ts';
import type { List, Model } from '../../api/types.ts';

/** How often a page that stays open asks what has become of its models: retirements are announced, moved and withdrawn meanwhile. */
export const refetchIntervalMs = 30_000;

/** The most that the API lists at once. */
const listedMax = 100;

/** Those of the models that the user may use, as they are by now, that the query finds: the first hundred, for there may be thousands. */
export const useModels = (query: Query = {}, options: GetOptions<List<Model>> = { refetchIntervalMs }) =>
  useGet<List<Model>>('/models', { ...query, limit: listedMax }, options);

/** One of them. */
export const useModel = (id: string) =>
  useGet<Model>(`/models/${encodeURIComponent(id)}`, undefined, { keepPrevious: false, refetchIntervalMs });
