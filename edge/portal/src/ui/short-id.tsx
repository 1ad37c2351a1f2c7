/** A shortened id, with the whole id on hover. Shows the end, since ids begin with their time. */
export function ShortId({ id }: { id: string }) {
  return (
    <code className="font-mono text-xs whitespace-nowrap text-faint" title={id}>
      {id.length > 13 ? `…${id.slice(-8)}` : id}
    </code>
  );
}
