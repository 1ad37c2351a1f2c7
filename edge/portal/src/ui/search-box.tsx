import { useSearchParameter } from '../router/router.ts';
import { Icon } from './icons.tsx';

/** The search text, without surrounding spaces, which may be pasted along with it. */
export const useSearch = (): string => useSearchParameter('search', '')[0].trim();

/**
 * A pasted secret becomes the preview by which its key is found: a secret has no place in an address, which browsers and proxies keep.
 */
export const withoutSecret = (text: string): string => text.replace(/(sk-proj-\w{4})\w{41}(\w{4})/, '$1...$2');

/** The `search` parameter of the address, updated as it is typed; a new search returns to the first page. */
export function SearchBox({ label, placeholder = label }: { label: string; placeholder?: string }) {
  const [search, setSearch] = useSearchParameter('search', '');
  return (
    <SearchInput
      label={label}
      placeholder={placeholder}
      value={search}
      onChange={(text) => setSearch(withoutSecret(text))}
    />
  );
}

type SearchInputProps = { label: string; placeholder: string; value: string; onChange: (value: string) => void };

export function SearchInput({ label, placeholder, value, onChange }: SearchInputProps) {
  return (
    <label className="relative min-w-[min(12rem,100%)] flex-1 sm:max-w-72">
      <span className="sr-only">{label}</span>
      <Icon name="search" className="absolute top-2.5 left-3 size-4 text-faint" />
      <input
        type="search"
        placeholder={placeholder}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        // In a form it would send what is already chosen.
        onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()}
        className="h-9 w-full rounded-md border border-edge bg-surface pr-3 pl-9 text-base"
      />
    </label>
  );
}
