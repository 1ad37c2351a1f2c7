import type { Scope } from '#shared/scopes.ts';
import type { Principal } from './principal.ts';

/**
 * Who may call a route. Every route declares this where it is registered, so the list of routes is the access matrix of service.md
 * (Endpoints); a test prints it.
 */
export type Access =
  /** Anybody, without a credential. */
  | { surface: 'public' }
  /** An API key with the scope, or a session. The scope's key type is the surface: inference or management. */
  | { surface: 'api'; scope: Scope; role?: 'admin' }
  /** A session only: API keys are outside this surface. */
  | { surface: 'session'; role?: 'admin' }
  /** A session of a platform operator. */
  | { surface: 'operator' };

/** The configuration of a route for platform operators. */
export const operatorOnly = { access: { surface: 'operator' } } as const;

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** Identifies the caller where a bearer token in the Authorization header is not the only way. For routes without a body. */
    authenticate?: (request: FastifyRequest) => Principal | Promise<Principal>;
    /**
     * Starts inference, a job or a realtime session: refused while the organization is suspended (decisions.md, Auth); a POST is also
     * refused under overload.
     */
    startsWork?: boolean;
    /** Admitted only after the body has arrived, so that a refusal can announce the retirement of the model that the body names. */
    admitAfterBody?: boolean;
  }
}
