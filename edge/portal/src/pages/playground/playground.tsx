import { useState } from 'react';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import type { List, Model } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded, together } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { SkeletonRows } from '../../ui/skeleton.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { RetiringBadge } from '../models/model-badges.tsx';
import { ModelSearch } from '../models/model-search.tsx';
import { modelToTry } from '../models/model-to-try.ts';
import { refetchIntervalMs, useModels } from '../models/use-models.ts';
import { Chat } from './chat.tsx';
import { Images } from './images.tsx';
import { fits, type Kind, kindFor, kindNames, kinds } from './kinds.ts';
import { Speech } from './speech.tsx';
import { Transcribe } from './transcribe.tsx';

/** The list in which the model with this name, if there is one, comes first. */
const useNamed = (name: string | undefined) =>
  useModels({ search: name }, { enabled: name !== undefined, refetchIntervalMs });

export function Playground() {
  const [wanted, setModel] = useSearchParameter('model', '');
  const [mode, setMode] = useSearchParameter('mode', '');
  const [search, setSearch] = useState('');
  const wantedModel = useNamed(wanted || undefined).data?.data.find((model) => model.id === wanted);
  const kind =
    kindNames.find((one) => one === mode) ?? (wantedModel === undefined ? undefined : kindFor(wantedModel)) ?? 'chat';
  // Until those of a mode are read, a list is still that of the mode before.
  const fitting = (list: List<Model> | undefined) => (list?.data ?? []).filter((model) => fits(model, kind));
  const models = useModels({ operation: kinds[kind].operations, search: '' });
  const found = useModels({ operation: kinds[kind].operations, search: search.trim() });
  const suggested = modelToTry(fitting(models.data));
  // Each mode keeps the model that it had, even if by now another would be offered first, or the address names one for another mode.
  const [offered] = useKeptState<Partial<Record<Kind, string>>>('playground models', {}, asItIs);
  const isForOther = wantedModel !== undefined && !fits(wantedModel, kind);
  offered[kind] ??= suggested?.id;
  const asked = wanted === '' || isForOther ? offered[kind] : wanted;
  const named = useNamed(asked);
  const askedModel = named.data?.data.find((model) => model.id === asked);
  const listed = fitting(found.data ?? models.data);
  const known = [...(askedModel === undefined ? [] : [askedModel]), ...listed, ...fitting(models.data)];
  const chosen = known.find((model) => model.id === asked && fits(model, kind)) ?? suggested;
  if (chosen?.id === wanted) offered[kind] = wanted;
  // The one in use is offered whatever is searched for.
  const choices = chosen === undefined || listed.some(({ id }) => id === chosen.id) ? listed : [chosen, ...listed];
  const readAgain = () => void Promise.all([models, found, named].map((list) => list.refetch()));
  const isGone = asked !== undefined && askedModel === undefined && !named.isPlaceholderData;
  return (
    <Page
      title="Playground"
      description="Try a model with your own session."
      badge={chosen === undefined ? undefined : <RetiringBadge model={chosen} />}
    >
      <Loaded of={asked === undefined ? models : together<Record<string, unknown>>({ models, named })}>
        {() => (
          <>
            <div className="flex flex-wrap items-center gap-2">
              <Segments
                label="Mode"
                value={kind}
                onChange={setMode}
                choices={kindNames.map((one) => ({ value: one, label: kinds[one].name }))}
              />
              <ModelSearch label="Search models" all={models.data} value={search} onChange={setSearch} />
              <Select
                aria-label="Model"
                className="max-w-72"
                value={chosen?.id ?? ''}
                onChange={setModel}
                choices={choices.map(({ id, display_name }) => ({ value: id, label: display_name }))}
              />
            </div>
            {isGone && chosen !== undefined && (
              <Notice tone="warn">
                You cannot use a model called <code className="font-mono wrap-anywhere">{asked}</code> here. Another one
                is selected.
              </Notice>
            )}
            {chosen !== undefined ? (
              <Trial kind={kind} model={chosen.id} onModelGone={readAgain} />
            ) : models.isPlaceholderData ? (
              <SkeletonRows />
            ) : (
              <EmptyState icon="model" title={kinds[kind].missing} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

type TrialProps = {
  kind: Kind;
  model: string;
  /** Something was refused: perhaps because the model is no longer there. */
  onModelGone: () => void;
};

function Trial({ kind, ...rest }: TrialProps) {
  switch (kind) {
    case 'chat':
      return <Chat {...rest} />;
    case 'images':
      return <Images {...rest} />;
    case 'speech':
      return <Speech {...rest} />;
    case 'transcribe':
      return <Transcribe {...rest} />;
    default:
      return kind satisfies never;
  }
}
