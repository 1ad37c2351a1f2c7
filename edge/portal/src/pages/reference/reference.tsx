import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ApiError } from '../../api/error.ts';
import { askAgainMs, useApi, useClaims } from '../../api/hooks.ts';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { type ApiDescription, type Operation, operationsOf } from './description.ts';
import { OperationEntry } from './operation.tsx';

/** Every operation of the API, as described by /openapi.json. */
export function Reference() {
  const api = useApi();
  const description = useQuery<ApiDescription, ApiError>({
    queryKey: ['/openapi.json'],
    queryFn: ({ signal }) => api.request<ApiDescription>('/openapi.json', { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: true,
    refetchInterval: ({ state }) => askAgainMs(state.error),
  });
  return (
    <Page
      title="API reference"
      description="Whatever the portal does, a program can do too. Generate clients from the OpenAPI description."
      actions={
        <ButtonLink icon="code" href="/openapi.json" target="_blank" rel="noreferrer">
          OpenAPI description
        </ButtonLink>
      }
    >
      <Loaded of={description}>{(data) => <Operations description={data} />}</Loaded>
    </Page>
  );
}

function Operations({ description }: { description: ApiDescription }) {
  const { operator } = useClaims();
  const search = useSearch();
  const groups = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/);
    const shown = operationsOf(description).filter((operation) => {
      const text = `${operation.method} ${operation.path} ${operation.summary} ${operation.operationId}`.toLowerCase();
      return words.every((word) => text.includes(word)) && (operator || operation.tags[0] !== 'admin');
    });
    const byTag = Object.entries(Object.groupBy(shown, ({ tags }) => tags[0])) as [string, Operation[]][];
    // Operations about the process itself come last, since callers rarely look for them.
    return byTag.sort(([one], [other]) => Number(one === 'operation') - Number(other === 'operation'));
  }, [description, search, operator]);
  return (
    <>
      <div className="flex">
        <SearchBox label="Search operations" />
      </div>
      {groups.length === 0 && (
        <Card flush>
          <EmptyState icon="search" title="No operations match this search" />
        </Card>
      )}
      {groups.map(([tag, operations]) => (
        <Card key={tag} title={titleOf(tag)} flush>
          <ul className="divide-y divide-line border-t border-line">
            {operations.map((operation) => (
              <OperationEntry
                key={operation.operationId}
                operation={operation}
                schemas={description.components.schemas}
              />
            ))}
          </ul>
        </Card>
      ))}
    </>
  );
}

const titleOf = (tag: string): string => {
  const words = tag.replaceAll('-', ' ').replace(/^api\b/, 'API');
  return words.slice(0, 1).toUpperCase() + words.slice(1);
};
