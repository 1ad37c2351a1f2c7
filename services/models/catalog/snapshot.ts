import { create, fromJson } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type CatalogSnapshot, CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import {
  type Deployment,
  DeploymentSchema,
  DeploymentSettingsSchema,
  type Grant,
  GrantSchema,
  type Model,
  ModelSchema,
  type Price,
  PriceRatesSchema,
  PriceSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { DeploymentRow, GrantRow, ModelRow, PriceRow } from '../db/catalog.entities.ts';
import type { RetirementRow } from '../db/retirement.entities.ts';
import { retirementMessage } from '../db/retirement.repository.ts';
import { effectiveSettings } from '../domain/deployment-settings.ts';

/**
 * Reads the whole catalog at one version. Call it in a transaction that sees one state (REPEATABLE READ). In plain SQL: with thousands of
 * models the ORM would keep the process from everything else for hundreds of milliseconds, at each change.
 */
export async function readSnapshot(sql: Sql): Promise<CatalogSnapshot> {
  const read = async <Row extends object>(text: string): Promise<Row[]> => (await sql.query<Row>(text)).rows;
  const [{ version, now }] = (await read('select version, now() as now from catalog_version')) as [
    { version: bigint; now: Date },
  ];
  const models = await read<ModelRow>(`select ${modelColumns} from models where deleted_at is null order by name`);
  const standing = await read<RetirementRow>(`select ${retirementColumns} from retirements where withdrawn_at is null`);
  const retirements = new Map(standing.map((row) => [row.modelId, row]));
  const deployments = Map.groupBy(
    await read<DeploymentRow>(`select ${deploymentColumns} from deployments order by id`),
    (row) => row.modelId,
  );
  const prices = Map.groupBy(
    await read<PriceRow>(`select ${priceColumns} from prices where withdrawn_at is null order by effective_from`),
    (row) => row.modelId,
  );
  const grants = Map.groupBy(
    await read<GrantRow>(`select ${grantColumns} from grants order by granted_at, tenant_id`),
    (row) => row.modelId,
  );
  return create(CatalogSnapshotSchema, {
    version,
    createdAt: timestampFromDate(now),
    models: models.map((row) => ({
      model: modelMessage(row, retirements.get(row.id)),
      grantedTenantIds: (grants.get(row.id) ?? []).map((grant) => grant.tenantId),
      deployments: (deployments.get(row.id) ?? []).map((deployment) => deploymentMessage(row.name, deployment)),
      prices: (prices.get(row.id) ?? []).map((price) => priceMessage(row.name, price)),
      grants: (grants.get(row.id) ?? []).map((grant) => grantMessage(row.name, grant)),
    })),
  });
}

/** All columns of a table, under the names that its entity gives them. */
const columnsOf = <Row>(columns: Record<keyof Row & string, string>): string =>
  Object.entries(columns)
    .map(([name, column]) => `${column} as "${name}"`)
    .join(', ');

const modelColumns = columnsOf<ModelRow>({
  id: 'id',
  name: 'name',
  displayName: 'display_name',
  ownedBy: 'owned_by',
  operations: 'operations',
  contextWindow: 'context_window',
  maxOutputTokens: 'max_output_tokens',
  visibility: 'visibility',
  createdAt: 'created_at',
  registeredFrom: 'registered_from',
  deletedAt: 'deleted_at',
});
const retirementColumns = columnsOf<RetirementRow>({
  id: 'id',
  modelId: 'model_id',
  deprecatedAt: 'deprecated_at',
  sunsetAt: 'sunset_at',
  replacementModelName: 'replacement_model_name',
  retirementNote: 'retirement_note',
  withdrawnAt: 'withdrawn_at',
  recallsMails: 'recalls_mails',
});
const deploymentColumns = columnsOf<DeploymentRow>({
  id: 'id',
  modelId: 'model_id',
  baseUrl: 'base_url',
  upstreamModel: 'upstream_model',
  settings: 'settings',
  status: 'status',
  statusChangedAt: 'status_changed_at',
  statusReason: 'status_reason',
  createdAt: 'created_at',
});
const priceColumns = columnsOf<PriceRow>({
  id: 'id',
  modelId: 'model_id',
  effectiveFrom: 'effective_from',
  createdAt: 'created_at',
  rates: 'rates',
  withdrawnAt: 'withdrawn_at',
});
const grantColumns = columnsOf<GrantRow>({ modelId: 'model_id', tenantId: 'tenant_id', grantedAt: 'granted_at' });

/** A model without what depends on its deployments and prices. */
export const modelMessage = (row: ModelRow, retirement: RetirementRow | undefined): Model => {
  const message: Omit<WholeMessage<typeof ModelSchema>, 'price' | 'nextPrice' | 'deployments' | 'isServiceable'> = {
    id: row.id,
    name: row.name,
    displayName: row.displayName,
    ownedBy: row.ownedBy,
    createdAt: timestampFromDate(row.createdAt),
    operations: row.operations,
    contextWindow: row.contextWindow,
    maxOutputTokens: row.maxOutputTokens,
    visibility: row.visibility,
    retirement: retirement === undefined ? undefined : retirementMessage(retirement),
  };
  return create(ModelSchema, message);
};

export const deploymentMessage = (model: string, row: DeploymentRow): Deployment =>
  create(DeploymentSchema, {
    id: row.id,
    model,
    settings: effectiveSettings(fromJson(DeploymentSettingsSchema, row.settings)),
    status: row.status,
    statusChangedAt: timestampFromDate(row.statusChangedAt),
    statusReason: row.statusReason,
    createdAt: timestampFromDate(row.createdAt),
  });

export const priceMessage = (model: string, row: PriceRow): Price =>
  create(PriceSchema, {
    id: row.id,
    model,
    effectiveFrom: timestampFromDate(row.effectiveFrom),
    createdAt: timestampFromDate(row.createdAt),
    rates: fromJson(PriceRatesSchema, row.rates),
  });

export const grantMessage = (model: string, { tenantId, grantedAt }: GrantRow): Grant =>
  create(GrantSchema, { model, tenantId, grantedAt: timestampFromDate(grantedAt) });
