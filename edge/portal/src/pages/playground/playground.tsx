import { useKeptState } from '../../api/kept-state.ts';
import type { Model } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { RetiringBadge } from '../models/model-badges.tsx';
import { modelToTry } from '../models/model-to-try.ts';
import { useModels } from '../models/use-models.ts';
import { Chat } from './chat.tsx';
import { Transcribe } from './transcribe.tsx';

const kinds = { chat: ['chat_completions'], transcribe: ['realtime_transcription', 'audio_transcriptions'] } as const;

export function Playground() {
  const models = useModels();
  const [wanted, setModel] = useSearchParameter('model', '');
  const [mode, setMode] = useSearchParameter('mode', '');
  const all = models.data?.data ?? [];
  const fits = (model: Model, kind: keyof typeof kinds) =>
    model.operations.some((one) => (kinds[kind] as readonly string[]).includes(one));
  const wantedModel = all.find((model) => model.id === wanted);
  const kind =
    mode === 'transcribe' ||
    (mode === '' && wantedModel !== undefined && !fits(wantedModel, 'chat') && fits(wantedModel, 'transcribe'))
      ? 'transcribe'
      : 'chat';
  const choices = all.filter((model) => fits(model, kind));
  // A conversation keeps the model that it had, even if by now another would be offered first.
  const [offered] = useKeptState<Partial<Record<keyof typeof kinds, string>>>('playground models', {});
  if (choices.some((model) => model.id === wanted)) offered[kind] = wanted;
  else offered[kind] ??= modelToTry(choices)?.id;
  const asked = wanted === '' ? offered[kind] : wanted;
  const chosen = choices.find((model) => model.id === asked) ?? modelToTry(choices);
  const isGone = asked !== undefined && !all.some((model) => model.id === asked);
  return (
    <Page
      title="Playground"
      description="Try a model with your own session."
      badge={chosen === undefined ? undefined : <RetiringBadge model={chosen} />}
    >
      <Loaded of={models}>
        {() => (
          <>
            <div className="flex flex-wrap items-center gap-2">
              <Segments
                label="Mode"
                value={kind}
                onChange={setMode}
                choices={[
                  { value: 'chat', label: 'Chat' },
                  { value: 'transcribe', label: 'Transcribe' },
                ]}
              />
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
            {chosen === undefined ? (
              <EmptyState
                icon="model"
                title={kind === 'chat' ? 'No chat model available' : 'No transcription model available'}
              />
            ) : kind === 'chat' ? (
              <Chat model={chosen.id} onModelGone={() => void models.refetch()} />
            ) : (
              <Transcribe model={chosen.id} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}
