/** A placeholder in roughly the shape of what is being loaded. */
export function Skeleton({ className = 'h-4 w-full' }: { className?: string }) {
  return <div className={`animate-pulse-soft rounded bg-sunken ${className}`} />;
}

export function SkeletonRows() {
  return (
    <div role="status" aria-label="Loading" className="grid gap-3 px-5 py-4">
      {Array.from({ length: 4 }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike and never change places.
        <div key={index} className="flex gap-4">
          <Skeleton className="h-4 w-1/4" />
          <Skeleton className="h-4 w-1/3" />
          <Skeleton className="h-4 w-1/6" />
        </div>
      ))}
    </div>
  );
}
