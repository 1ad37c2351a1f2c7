import { fastifyCookie } from '@fastify/cookie';
import type { EdgeApp, Routes } from '../routes.ts';
import { jwksRoutes } from '../well-known/jwks.ts';
import { loginRoutes } from './auth/login.ts';
import { logoutRoutes } from './auth/logout.ts';
import { refreshRoutes } from './auth/refresh.ts';
import { profileRoutes } from './profile.ts';

/** All routes about sessions, people, organizations and their operators. */
export const identityRoutes: Routes = (app, deps) => {
  for (const routes of families) routes(app, deps);
  // Cookies are read where the refresh token may be one, and nowhere else.
  app.register(async (withCookies: EdgeApp) => {
    await withCookies.register(fastifyCookie);
    for (const routes of cookieFamilies) routes(withCookies, deps);
  });
};

const families: readonly Routes[] = [profileRoutes, jwksRoutes];
const cookieFamilies: readonly Routes[] = [loginRoutes, refreshRoutes, logoutRoutes];
