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
    /** What its route declares; undefined when it met none. */
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
   * The principal behind a token: at once when the edge knows it, else a promise. Throws, or rejects with, a GatewayError
   * when there is none: INVALID_API_KEY, EXPIRED_API_KEY, INVALID_TOKEN, EXPIRED_TOKEN; OVERLOADED when nobody can tell.
   * `again`: in the same request, which is one use of a key.
   */
  authenticate(token: string, again?: boolean): Principal | Promise<Principal>;
  /**
   * Calls back once the principal is no longer served (revoked, expired, deactivated, suspended, signed out), with the refusal, so that a
   * connection which stays open can say it and close; and with what its key may do now whenever that may have changed. Answers how to
   * stop listening.
   */
  onEnded(
    principal: Principal,
    listener: (refusal: GatewayError) => void,
    change?: (principal: KeyPrincipal) => void,
  ): () => void;
};

/**
 * Authenticates and admits every request before its body is read, and again behind the body, which may take ten minutes to arrive: what
 * was revoked meanwhile does nothing more. A route that declares no access does not register: a forgotten declaration must not open an
 * endpoint.
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
    // Read once: Fastify makes an object of all options at each reading.
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
      { admits: !rule.admitBehindBody, done },
    );
  });

  // In front of validation: who may no longer do a thing learns nothing about how.
  app.addHook('preValidation', (request, _reply, done) => {
    const { rule, principal } = request;
    if (principal === null || !(rule!.admitBehindBody || hasBody(request.raw))) {
      done();
      return;
    }
    enter(request, () => credentials.authenticate(bearerToken(request.raw), true), { admits: true, done });
  });
}

/** Lets a request on as whoever it turns out to be made by. */
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
