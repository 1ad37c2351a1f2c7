import { classNames } from '../ui/class-names.ts';

export function Logo({ className = 'size-7' }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" className={classNames('shrink-0', className)} aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-[#0f6b5c]" />
      <path
        d="M8 24V15a8 8 0 0 1 16 0v9M13 24v-8.500a3 3 0 0 1 6 0V24"
        fill="none"
        stroke="#fff"
        strokeWidth="2.4"
        strokeLinecap="round"
      />
    </svg>
  );
}
