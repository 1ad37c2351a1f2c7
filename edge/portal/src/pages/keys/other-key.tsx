import { useRef } from 'react';
import { useClaims, useGet, useIsAdmin, useMayChange } from '../../api/hooks.ts';
import type { KeyAnalytics, List, Member } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { Status } from '../../ui/badge.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Analytics } from './analytics/analytics.tsx';
import { useReport } from './analytics/use-analytics.ts';
import { KeyStatus } from './key-badges.tsx';

/** A key that is not among one's own: a deleted one or, for admins, a teammate's. Its analytics are all that the API has of it. */
export function OtherKey({ id }: { id: string }) {
  const { userId } = useClaims();
  const isAdmin = useIsAdmin();
  const mayChange = useMayChange();
  const report = useReport(id);
  // What the key is stays known while, and if, another range cannot be read.
  const known = useRef(report.data);
  known.current = report.data ?? known.current;
  const key = known.current;
  const ownerId = key?.key_user_id ?? '';
  const isTeammates = ownerId !== '' && ownerId !== userId;
  const members = useGet<List<Member>>('/members', { search: ownerId }, { enabled: isTeammates, keepPrevious: false });
  const owner = members.data?.data[0];
  return (
    <Page
      title={key?.key_name ?? 'API key'}
      parent={
        isTeammates ? { name: 'Usage by key', href: '/usage?scope=tenant&by=key' } : { name: 'API keys', href: '/keys' }
      }
      badge={
        key?.key_deleted === true ? (
          <Status tone="danger">Deleted</Status>
        ) : (
          key?.key_status != null && <KeyStatus status={key.key_status} />
        )
      }
      description={
        key?.key_preview != null && (
          <>
            <code className="font-mono text-sm">{key.key_preview}</code>
            {owner !== undefined && (
              <>
                {' '}
                · <Email address={owner.email} />
              </>
            )}
          </>
        )
      }
      actions={
        key?.key_name != null && (
          <>
            <ButtonLink icon="chart" href={`/usage?by=request&key=${id}${isTeammates ? '&scope=tenant' : ''}`}>
              Requests and costs
            </ButtonLink>
            {isAdmin && (
              <ButtonLink icon="log" href={`/audit?target=${id}`}>
                Audit events
              </ButtonLink>
            )}
          </>
        )
      }
    >
      {key === undefined ? (
        <Loaded of={report}>{() => null}</Loaded>
      ) : (
        <>
          <Notice>
            <Standing
              report={key}
              isTeammates={isTeammates}
              isOwnerActive={owner?.is_active !== false}
              mayDeactivate={owner === undefined || mayChange(owner)}
            />
          </Notice>
          <Analytics keyId={id} />
        </>
      )}
    </Page>
  );
}

type StandingProps = {
  report: Pick<KeyAnalytics, 'key_name' | 'key_deleted' | 'key_status' | 'key_user_id'>;
  isTeammates: boolean;
  isOwnerActive: boolean;
  /** Whether the user may deactivate the key's owner: an admin may not if that is an owner of the organization. */
  mayDeactivate: boolean;
};

/** Why the key is not among one's own, and what can be done about it. */
function Standing({ report, isTeammates, isOwnerActive, mayDeactivate }: StandingProps) {
  const { key_name, key_deleted, key_status, key_user_id } = report;
  // The API does not tell a key that never existed from one that the user may not see.
  if (key_name === null)
    return 'None of your keys has this id. If there never was such a key, everything below is zero.';
  if (key_deleted === true || !isTeammates) return 'This key was deleted. What it was used for stays on record.';
  if (key_status === 'revoked')
    return 'The platform’s operator has revoked this key of a teammate, so every call with it is refused.';
  if (key_status === 'expired') return 'This key of a teammate has expired, so every call with it is refused.';
  if (!isOwnerActive) return 'Its owner is deactivated, so every call with it is refused.';
  if (!mayDeactivate)
    return 'A teammate’s key, which only they can change or delete. Only an owner can have all calls with their keys refused at once, by deactivating them.';
  return (
    <>
      A teammate’s key, which only they can change or delete. To have all calls with their keys refused at once,{' '}
      <Link href={`/organization?search=${key_user_id}`} className="text-accent underline">
        deactivate them
      </Link>
      .
    </>
  );
}
