import { useEffect, useRef, useState } from 'react';
import { Button } from './button.tsx';

/** Copies text and says so for two seconds. */
export function CopyButton({
  text,
  label = 'Copy',
  size = 'small',
}: {
  text: string;
  label?: string;
  size?: 'small' | 'medium';
}) {
  const [copied, setCopied] = useState(false);
  const timer = useRef<number>(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setCopied(false), 2000);
  };
  return (
    <Button size={size} icon={copied ? 'check' : 'copy'} onClick={() => void copy()} aria-live="polite">
      {copied ? 'Copied' : label}
    </Button>
  );
}

/** The clipboard API is missing outside secure contexts; there a selected text area and the old command do it. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Not permitted: the old way below.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
