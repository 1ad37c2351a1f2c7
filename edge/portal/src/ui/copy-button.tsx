import { useEffect, useRef, useState } from 'react';
import { Button } from './button.tsx';
import { shortcut } from './shortcut.ts';

type CopyButtonProps = { text: string; label?: string; size?: 'small' | 'medium' };
type Outcome = 'copied' | 'selected' | 'failed';

/** Copies text, and says so for two seconds. If the browser does not allow that, selects the text on the page instead. */
export function CopyButton({ text, label = 'Copy', size = 'small' }: CopyButtonProps) {
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const timer = useRef<number>(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    const next = await copyText(text, button.current!);
    setOutcome(next);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setOutcome(null), next === 'copied' ? 2000 : 10_000);
  };
  const labels = { copied: 'Copied', selected: `Press ${shortcut('C')}`, failed: 'Not copied' } as const;
  return (
    <Button
      ref={button}
      size={size}
      icon={outcome === 'copied' ? 'check' : 'copy'}
      onClick={() => void copy()}
      aria-live="polite"
    >
      {outcome === null ? label : labels[outcome]}
    </Button>
  );
}

/** The clipboard API is missing outside secure contexts; there, a selected text area and the old copy command do the same. */
async function copyText(text: string, button: HTMLElement): Promise<Outcome> {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return 'copied';
    } catch {
      // Not permitted: falls back to the old way.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr-only';
  // A dialog takes the focus away from anything outside it, and the selection with it.
  (button.closest('[role="dialog"]') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  button.focus();
  if (copied) return 'copied';
  return selectShown(text, button) ? 'selected' : 'failed';
}

/** Selects the text where it is shown on the page, nearest to the button. */
function selectShown(text: string, button: HTMLElement): boolean {
  for (let around = button.parentElement; around !== null; around = around.parentElement) {
    const shown = [...around.querySelectorAll('*')].find((element) => element.textContent === text);
    if (shown === undefined) continue;
    window.getSelection()?.selectAllChildren(shown);
    return true;
  }
  return false;
}
