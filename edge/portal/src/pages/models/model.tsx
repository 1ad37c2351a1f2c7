import { useState } from 'react';
import type { Model } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { Status } from '../../ui/badge.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card, Facts, Figures } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Time } from '../../ui/time.tsx';
import { kindFor } from '../playground/kinds.ts';
import { LanguageChoice } from './language-choice.tsx';
import { OperationBadges, RetirementSentence, RetiringBadge, ServingStatus } from './model-badges.tsx';
import { operationName } from './operations.ts';
import { priceLines } from './prices.ts';
import { type Language, snippet } from './snippets.ts';
import { useModel } from './use-models.ts';

export function ModelPage({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const model = useModel(id);
  return (
    <Page
      title={model.data?.display_name ?? id}
      parent={{ name: 'Models', href: '/models' }}
      badge={model.data === undefined ? undefined : <RetiringBadge model={model.data} />}
      description={
        <span className="flex flex-wrap items-center gap-2">
          <code className="font-mono text-sm wrap-anywhere">{id}</code>
          <CopyButton text={id} label="Copy name" />
        </span>
      }
      actions={
        <>
          {model.data !== undefined && (
            <ButtonLink icon="chart" href={`/usage?by=request&model=${encodeURIComponent(id)}`}>
              Your requests
            </ButtonLink>
          )}
          {model.data !== undefined && kindFor(model.data) !== undefined && (
            <ButtonLink icon="play" href={`/playground?model=${encodeURIComponent(id)}`}>
              Try it
            </ButtonLink>
          )}
        </>
      }
    >
      <Loaded of={model}>{(data) => <Details model={data} />}</Loaded>
    </Page>
  );
}

/** What is to be paid from a moment on, so that nobody learns of it by an invoice. */
function NextPrice({ price }: { price: NonNullable<Model['next_prices']> }) {
  const lines = priceLines(price);
  return (
    <div className="mt-4 border-t border-line pt-4">
      <p className="mb-2 text-sm">
        From <Time value={price.effective_from} /> on{lines.length === 0 ? ' free of charge.' : ':'}
      </p>
      {lines.length > 0 && <Figures figures={lines.map(({ amount, unit }) => [unit, amount])} />}
    </div>
  );
}

function Details({ model }: { model: Model }) {
  const lines = priceLines(model.prices);
  return (
    <>
      {model.deprecated_at !== null && (
        <Notice
          tone="warn"
          action={
            // Anybody may read that page, so it knows only public models.
            model.visibility === 'public' ? (
              <a
                href={`/retirements/${encodeURIComponent(model.id)}`}
                target="_blank"
                rel="noreferrer"
                className="shrink-0 font-medium underline"
              >
                Retirement page
              </a>
            ) : undefined
          }
        >
          <strong className="font-semibold">This model is retiring.</strong> Until it stops it serves every request
          unchanged. <RetirementSentence model={model} />
        </Notice>
      )}
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Card title="About">
          <Facts
            facts={[
              ['Made by', model.owned_by],
              ['Status', <ServingStatus key="status" model={model} />],
              ['Operations', <OperationBadges key="operations" model={model} />],
              ['Context window', model.context_window ? `${formatCount(model.context_window)} tokens` : '—'],
              ['Longest answer', model.max_output_tokens ? `${formatCount(model.max_output_tokens)} tokens` : '—'],
              ['Added', <Time key="added" value={new Date(model.created * 1000).toISOString()} />],
              ...(model.deprecated_at === null
                ? []
                : [['Announced', <Time key="announced" value={model.deprecated_at} />] as const]),
              ...(model.sunset_at === null
                ? []
                : [['Retires', <Time key="retires" value={model.sunset_at} />] as const]),
            ]}
          />
        </Card>
        <div className="grid gap-5">
          <Card title="Price">
            {lines.length === 0 ? (
              <p className="text-sm text-faint">
                {model.prices === null
                  ? 'No price is set. Until an operator sets one, calls are refused wherever spend is limited: by a spend cap, a personal limit or the credit of the organization.'
                  : 'Free of charge.'}
              </p>
            ) : (
              <Figures figures={lines.map(({ amount, unit }) => [unit, amount])} />
            )}
            {model.next_prices !== null && <NextPrice price={model.next_prices} />}
          </Card>
          <Card title="Deployments">
            {model.deployments.length === 0 ? (
              <p className="text-sm text-faint">None.</p>
            ) : (
              <ul className="grid grid-cols-[minmax(0,1fr)] gap-2">
                {model.deployments.map((deployment) => (
                  <li key={deployment.id} className="flex items-center justify-between gap-4 text-sm">
                    <code className="min-w-0 flex-1 truncate font-mono text-xs text-faint">{deployment.id}</code>
                    <DeploymentStatus status={deployment.status} />
                  </li>
                ))}
              </ul>
            )}
          </Card>
        </div>
      </div>
      <Snippets model={model} />
    </>
  );
}

export function DeploymentStatus({ status }: { status: string }) {
  const tone =
    status === 'Running'
      ? 'good'
      : status === 'Degraded' || status === 'Pending'
        ? 'warn'
        : status === 'Failed'
          ? 'danger'
          : 'neutral';
  return <Status tone={tone}>{status}</Status>;
}

function Snippets({ model }: { model: Model }) {
  const [language, setLanguage] = useState<Language>('curl');
  const [operation, setOperation] = useState(model.operations[0] ?? 'chat_completions');
  return (
    <Card
      title="Call it"
      description="Expects your key in the environment variable MODEL_GATEWAY_KEY."
      action={
        <div className="flex flex-wrap gap-2">
          {model.operations.length > 1 && (
            <Select
              aria-label="Operation"
              value={operation}
              onChange={setOperation}
              choices={model.operations.map((one) => ({ value: one, label: operationName(one) }))}
            />
          )}
          <LanguageChoice value={language} onChange={setLanguage} />
        </div>
      }
    >
      <CodeBlock
        label={`A call in ${language}`}
        code={snippet(language, operation, model.id, window.location.origin)}
      />
    </Card>
  );
}
