import type { Query } from '../../api/client.ts';
import { type GetOptions, useGet } from '../../api/hooks.ts';
import type { List, Model } from '../../api/types.ts';

/** How often a page that stays open asks what has become of its models: retirements are announced, moved and withdrawn meanwhile. */
export const refetchIntervalMs = 30_000;

/** The most that the API lists at once. */
const listedMax = 100;

/** The models that the user may use and the query finds, kept current: the first hundred, since there may be thousands. */
export const useModels = (query: Query = {}, options: GetOptions<List<Model>> = { refetchIntervalMs }) =>
  useGet<List<Model>>('/models', { ...query, limit: listedMax }, options);

/** One model that the user may use, kept current. */
export const useModel = (id: string) =>
  useGet<Model>(`/models/${encodeURIComponent(id)}`, undefined, { keepPrevious: false, refetchIntervalMs });
