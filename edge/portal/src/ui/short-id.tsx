/** An id, short, whole on hover: its end, since its beginning is the time. */
export function ShortId({ id }: { id: string }) {
  return (
    <code className="font-mono text-xs text-faint" title={id}>
      {id.length > 13 ? `…${id.slice(-8)}` : id}
    </code>
  );
}
