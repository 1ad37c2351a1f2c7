import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { GatewayError } from '#shared/errors.ts';
import type { Access } from '../access.ts';
import { clientAddress } from '../client-address.ts';
import { hasBody } from '../http/bodies.ts';
import type { KeyPrincipal, Principal } from '../principal.ts';
import { admit, type CompiledAccess, compileAccess } from './admit.ts';
import { bearerToken } from './bearer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who makes the request; null on public routes only. */
    principal: Principal | null;
    /** What its route declares; undefined when the request matched no route. */
    rule: CompiledAccess | undefined;
  }
  interface FastifyContextConfig {
    compiledAccess?: CompiledAccess;
  }
  interface FastifyInstance {
    /** Every route with what it declares: the access matrix of the API, as tests print it. */
    declaredRoutes: readonly DeclaredRoute[];
  }
}

/** A route of the router. */
export type DeclaredRoute = { method: string; url: string; access: Access; schema: FastifySchema };

/** Turns bearer tokens into principals. */
export type Credentials = {
  /**
   * The principal of a token: at once when the edge knows it, else a promise. Throws, or rejects with, a GatewayError when there is none:
   * INVALID_API_KEY, EXPIRED_API_KEY, INVALID_TOKEN, EXPIRED_TOKEN; OVERLOADED when nobody can tell. `again`: a second check within one
   * request, which counts as one use of a key.
   */
  authenticate(token: string, again?: boolean): Principal | Promise<Principal>;
  /**
   * Calls `listener` once, with the refusal, when the principal is no longer served (revoked, expired, deactivated, suspended, signed out):
   * an open connection then says so and closes. Calls `change` with what the key may do now, whenever that may have changed. Returns a
   * function that stops listening.
   */
  onEnded(
    principal: Principal,
    listener: (refusal: GatewayError) => void,
    change?: (principal: KeyPrincipal) => void,
  ): () => void;
  /** Whether the feed that tells of the principal's end is live; if not, the principal may have ended and nobody has heard of it here. */
  isFollowed(principal: Principal): boolean;
};

/**
 * Authenticates and admits every request before its body is read, and again once the body is there, which may take ten minutes to arrive,
 * and its turn has come: a credential revoked in between does nothing more. A route that declares no access fails to register, since a
 * forgotten declaration must not open an endpoint.
 */
export function installAccess(app: FastifyInstance, credentials: Credentials): void {
  app.decorateRequest('principal', null);
  app.decorateRequest('rule', undefined);
  const declaredRoutes: DeclaredRoute[] = [];
  app.decorate('declaredRoutes', declaredRoutes);

  app.addHook('onRoute', (route) => {
    const access = route.config?.access;
    if (access === undefined) throw new Error(`route ${String(route.method)} ${route.url} declares no access`);
    route.config!.compiledAccess = compileAccess(access, route.config!);
    for (const method of [route.method].flat()) {
      declaredRoutes.push({ method, url: route.url, access, schema: route.schema ?? {} });
    }
  });

  app.addHook('onRequest', (request, _reply, done) => {
    // Read once: Fastify builds an object of all options at each reading.
    const { compiledAccess: rule, authenticate } = request.routeOptions.config;
    request.rule = rule;
    // Without a rule the request met no route, and is answered by the not-found handler.
    if (rule === undefined || rule.access.surface === 'public') {
      done();
      return;
    }
    enter(
      request,
      () => (authenticate === undefined ? credentials.authenticate(bearerToken(request.raw)) : authenticate(request)),
      { admits: !rule.admitAfterBody, done },
    );
  });

  // Before validation: a caller who may no longer do something learns nothing about how it is done.
  app.addHook('preValidation', (request, _reply, done) => {
    const { rule, principal } = request;
    if (principal === null || (rule!.startsWork && !rule!.admitAfterBody && !hasBody(request.raw))) {
      done();
      return;
    }
    enter(request, () => credentials.authenticate(bearerToken(request.raw), true), { admits: true, done });
  });
}

/** Lets a request continue once its principal is known. */
function enter(
  request: FastifyRequest,
  authenticate: () => Principal | Promise<Principal>,
  { admits, done }: { admits: boolean; done: (refusal?: Error) => void },
): void {
  const admitted = (principal: Principal): void => {
    request.principal = principal;
    if (admits) admit(principal, request.rule!, clientAddress(request));
  };
  try {
    const principal = authenticate();
    if (principal instanceof Promise) {
      principal.then(admitted).then(() => done(), done);
    } else {
      admitted(principal);
      done();
    }
  } catch (refusal) {
    done(refusal as Error);
  }
}
