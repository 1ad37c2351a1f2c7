import { useEffect } from 'react';

/**
 * When the focused element disappears, such as a deleted key's row, moves the focus to the next row or to what is left around it: otherwise
 * screen readers would start again at the top of the page. Not when the whole page goes, since the next one takes the focus.
 */
export function useKeptPlace(content: { readonly current: HTMLElement | null }): void {
  useEffect(() => {
    const root = content.current;
    if (root === null) return;
    let focused: Node | null = null;
    const note = ({ target }: FocusEvent) => {
      focused = root.contains(target as Node) ? (target as Node) : null;
    };
    const observer = new MutationObserver((records) => {
      if (focused === null || focused.isConnected || document.activeElement !== document.body) return;
      for (const { removedNodes, target, nextSibling, previousSibling } of records) {
        const removed = [...removedNodes].find((node) => node.contains(focused));
        if (removed === undefined || target === root) continue;
        const beside = removed === focused ? null : (nextSibling ?? previousSibling);
        const left = beside instanceof HTMLElement && beside.isConnected ? beside : (target as HTMLElement);
        if (!left.hasAttribute('tabindex')) left.tabIndex = -1;
        left.focus({ preventScroll: true });
      }
      focused = null;
    });
    document.addEventListener('focusin', note);
    observer.observe(root, { childList: true, subtree: true });
    return () => {
      document.removeEventListener('focusin', note);
      observer.disconnect();
    };
  }, [content]);
}
