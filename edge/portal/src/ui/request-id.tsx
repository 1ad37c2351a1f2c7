/** The id of a request that failed, by which operators find it; nothing if there is none. */
export function RequestId({ id }: { id: string | null }) {
  if (id === null) return null;
  return (
    <span className="mt-1 block text-xs text-soft">
      Request <code className="font-mono select-all wrap-anywhere">{id}</code>
    </span>
  );
}
