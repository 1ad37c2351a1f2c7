import { fileOf } from '../../api/error.ts';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import { downloadFile } from '../../format/download.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';
import { FormError } from '../../ui/form.tsx';
import { Player } from '../../ui/player.tsx';
import { Composer } from './composer.tsx';
import { useCall } from './use-call.ts';
import { answersClass, Workspace } from './workspace.tsx';

type Spoken = { text: string; sound: Blob; format: string };

/** Those that browsers play, with one first that each of them does, and that the sandbox can encode. */
const formats = ['wav', 'mp3', 'aac', 'opus', 'flac'].map((format) => ({ value: format, label: format }));

export function Speech({ model, onModelGone }: { model: string; onModelGone: () => void }) {
  const { ended, error, busy, run, stop } = useCall<Spoken>('speech', onModelGone);
  const [text, setText] = useKeptState('speech text', '', asItIs);
  const [voice, setVoice] = useKeptState('speech voice', 'alloy', asItIs);
  const [format, setFormat] = useKeptState('speech format', 'wav', asItIs);
  const speak = () => {
    const input = text.trim();
    if (input === '') return;
    void run('/audio/speech', { model, input, voice: voice.trim(), response_format: format }, async (response) => ({
      text: input,
      sound: await fileOf(response),
      format,
    }));
  };
  return (
    <Workspace
      composer={
        <>
          <FormError error={error} />
          <Composer
            label="Text"
            placeholder="Write what is to be said"
            text={text}
            onType={setText}
            action="Speak"
            onSend={speak}
            busy={busy}
            onStop={stop}
          />
        </>
      }
      settings={
        <>
          <TextField label="Voice" value={voice} onChange={setVoice} spellCheck={false} />
          <SelectField label="Format" value={format} onChange={setFormat} choices={formats} />
        </>
      }
    >
      <section
        aria-label="Speech"
        aria-live="polite"
        aria-busy={busy}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard.
        tabIndex={0}
        className={answersClass(busy || ended === null)}
      >
        {busy ? (
          <p className="animate-pulse-soft text-center text-sm text-faint">Speaking…</p>
        ) : ended === null ? (
          <EmptyState icon="mic" title="Nothing said yet">
            It uses your session, within your limits, and is metered like any other call.
          </EmptyState>
        ) : (
          <>
            <p dir="auto" translate="no" className="text-base whitespace-pre-wrap wrap-anywhere">
              {ended.answer.text}
            </p>
            <Player label="What was said" sound={ended.answer.sound} />
            <p className="flex flex-wrap items-center gap-2 text-xs text-faint">
              {ended.note}
              <Button
                size="small"
                icon="download"
                onClick={() => downloadFile(`speech.${ended.answer.format}`, ended.answer.sound)}
              >
                Download
              </Button>
            </p>
          </>
        )}
      </section>
    </Workspace>
  );
}
