import { useState } from 'react';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { LanguageChoice } from '../models/language-choice.tsx';
import { chatSnippet, type Language } from '../models/snippets.ts';
import { type ChatRequest, withoutPictures } from './chat-request.ts';

/** A conversation as a call that any client can make. */
export function ViewCode({ request, onClose }: { request: ChatRequest; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>('curl');
  const shown = withoutPictures(request);
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title="Code"
      description={`What Send would send or, with no message written, the last message once more${shown === request ? '' : ', but without the pictures'}. Expects your key in the environment variable MODEL_GATEWAY_KEY.`}
    >
      <div className="grid grid-cols-[minmax(0,1fr)] justify-items-start gap-3">
        <LanguageChoice value={language} onChange={setLanguage} />
        <div className="w-full min-w-0">
          <CodeBlock
            label={`A call in ${language}`}
            code={chatSnippet(language, shown, window.location.origin)}
            wraps
          />
        </div>
      </div>
    </Dialog>
  );
}
