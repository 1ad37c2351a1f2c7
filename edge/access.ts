import type { Scope } from '#shared/scopes.ts';
import type { Principal } from './principal.ts';

/**
 * Who may call a route. Every route declares it where it is registered, so that the list of routes is the access matrix
 * of service.md (Endpoints); a test prints it.
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
    /** Finds who makes the request, where that is not told by a bearer token of the edge's credentials alone. For routes without a body. */
    authenticate?: (request: FastifyRequest) => Principal | Promise<Principal>;
    /**
     * Inference, jobs and realtime: refused while the organization is suspended (decisions.md, Auth), and what is posted also while there
     * is too much to do.
     */
    startsWork?: boolean;
    /** Admitted once the body is there, so that a refusal can announce the retirement of the model it names. */
    admitBehindBody?: boolean;
  }
}
