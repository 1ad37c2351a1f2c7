import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';

/**
 * Tells the other Models processes the status of deployments by what this one's edges report; returns what others have said of them within
 * `freshMs`, by the deployment's id.
 */
export async function exchangeOpinions(
  em: SqlEntityManager,
  own: { modelsId: string; statuses: ReadonlyMap<string, DeploymentStatus> },
  freshMs: number,
): Promise<Map<string, DeploymentStatus[]>> {
  const told = Array.from(own.statuses, ([deployment_id, status]) => ({ deployment_id, status }));
  const fresh = `told_at > clock_timestamp() - interval '${freshMs} milliseconds'`;
  const others = await em.execute<{ deployment_id: string; status: DeploymentStatus }[]>(
    `with told as (
       select * from jsonb_to_recordset(?::jsonb) as told (deployment_id uuid, status smallint)
     ), kept as (
       insert into deployment_opinions (deployment_id, models_id, status, told_at)
       select deployment_id, ?, status, clock_timestamp() from told
       on conflict (deployment_id, models_id) do update set status = excluded.status, told_at = excluded.told_at
     ), forgotten as (
       delete from deployment_opinions where models_id <> ? and not ${fresh}
     )
     select deployment_id, opinions.status from deployment_opinions as opinions join told using (deployment_id)
     where models_id <> ? and ${fresh}`,
    [JSON.stringify(told), own.modelsId, own.modelsId, own.modelsId],
  );
  const byDeployment = new Map<string, DeploymentStatus[]>();
  for (const { deployment_id, status } of others) {
    byDeployment.set(deployment_id, [...(byDeployment.get(deployment_id) ?? []), status]);
  }
  return byDeployment;
}
