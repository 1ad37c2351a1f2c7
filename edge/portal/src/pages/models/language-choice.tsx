import { Segments } from '../../ui/tabs.tsx';
import type { Language } from './snippets.ts';

/** In which language code is shown. */
export function LanguageChoice({ value, onChange }: { value: Language; onChange: (language: Language) => void }) {
  return (
    <Segments
      label="Language"
      value={value}
      onChange={(language) => onChange(language as Language)}
      choices={[
        { value: 'curl', label: 'curl' },
        { value: 'python', label: 'Python' },
        { value: 'node', label: 'Node' },
      ]}
    />
  );
}
