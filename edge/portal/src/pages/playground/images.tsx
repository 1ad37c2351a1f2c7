import { bodyOf } from '../../api/error.ts';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { TextField } from '../../ui/field.tsx';
import { FormError } from '../../ui/form.tsx';
import { AnswerImages } from './answer-extras.tsx';
import { imagesIn } from './answer-parts.ts';
import { Composer } from './composer.tsx';
import { useCall } from './use-call.ts';
import { answersClass, Workspace } from './workspace.tsx';

type Drawing = { prompt: string; images: readonly string[] };

export function Images({ model, onModelGone }: { model: string; onModelGone: () => void }) {
  const { ended, error, busy, run, stop } = useCall<Drawing>('images', onModelGone);
  const [prompt, setPrompt] = useKeptState('images prompt', '', asItIs);
  const [size, setSize] = useKeptState('images size', '', asItIs);
  const draw = () => {
    const asked = prompt.trim();
    if (asked === '') return;
    const body = { model, prompt: asked, ...(size.trim() !== '' && { size: size.trim() }) };
    void run('/images/generations', body, async (response) => ({
      prompt: asked,
      images: imagesIn(await bodyOf<object>(response)),
    }));
  };
  return (
    <Workspace
      composer={
        <>
          <FormError error={error} />
          <Composer
            label="Prompt"
            placeholder="Describe a picture"
            text={prompt}
            onType={setPrompt}
            action="Draw"
            onSend={draw}
            busy={busy}
            onStop={stop}
          />
        </>
      }
      settings={
        <TextField
          label="Size"
          placeholder="Model default"
          hint="Such as 1024x1024."
          value={size}
          onChange={setSize}
          spellCheck={false}
        />
      }
    >
      <section
        aria-label="Picture"
        aria-live="polite"
        aria-busy={busy}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard.
        tabIndex={0}
        className={answersClass(busy || ended === null)}
      >
        {busy ? (
          <p className="animate-pulse-soft text-center text-sm text-faint">Drawing…</p>
        ) : ended === null ? (
          <EmptyState icon="play" title="Nothing drawn yet">
            It uses your session, within your limits, and is metered like any other call.
          </EmptyState>
        ) : (
          <>
            <p dir="auto" translate="no" className="text-base whitespace-pre-wrap wrap-anywhere">
              {ended.answer.prompt}
            </p>
            <AnswerImages images={ended.answer.images} />
            {ended.answer.images.length === 0 && <p className="text-sm text-soft">The answer has no picture.</p>}
            <p className="text-xs text-faint">{ended.note}</p>
          </>
        )}
      </section>
    </Workspace>
  );
}
