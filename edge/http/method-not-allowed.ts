import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { EdgeApp } from '../app.ts';
import { endpointMethods } from './headers.ts';

/** HEAD comes with GET, and OPTIONS is answered before any route. */
const refused = [...endpointMethods].filter((method) => method !== 'HEAD' && method !== 'OPTIONS');

/** Records the methods that each path is registered for; `close`, called after the last route, answers all others with 405 and `Allow`. */
export function methodNotAllowed(app: EdgeApp): { close(app: EdgeApp): void } {
  const registered = new Map<string, Set<string>>();
  let closed = false;
  app.addHook('onRoute', (route) => {
    if (closed) return;
    const known = registered.get(route.url) ?? new Set();
    for (const method of [route.method].flat()) known.add(method);
    registered.set(route.url, known);
  });

  return {
    close(rest) {
      closed = true;
      for (const [url, known] of registered) {
        const allow = [...known].sort().join(', ');
        const others = refused.filter((method) => !known.has(method));
        if (others.length === 0) continue;
        rest.route({
          method: others,
          url,
          config: { access: { surface: 'public' } },
          // Refused before the body is read, whatever its type.
          onRequest: (request, reply, done) => {
            reply.header('allow', allow);
            done(
              gatewayError(ErrorReason.METHOD_NOT_SUPPORTED, `${request.method} is not supported here; use ${allow}.`),
            );
          },
          handler: () => undefined,
        });
      }
    },
  };
}
