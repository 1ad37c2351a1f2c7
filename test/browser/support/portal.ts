import { builtPortal } from '../../../edge/portal/build.ts';
import { ClockAhead } from '../../support/clock-ahead.ts';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { copyOfWorldDatabase } from './world/database.ts';
import { makeWorld, type World, type WorldSize } from './world/index.ts';
import { users } from './world/people.ts';

export { hostileName } from './world/index.ts';
export { users } from './world/people.ts';

export type Portal = AsyncDisposable & {
  url: string;
  gateway: TestGateway;
  world: World;
  /** Lets this many milliseconds pass for the gateway, but not for the browser. */
  travel(ms: number): void;
};

/** The portal as the real gateway serves it, on its own database with a small organization in it. */
export async function startPortal(): Promise<Portal> {
  const database = await copyOfWorldDatabase(async (databaseUrl) => {
    await using made = await startPortalOn(databaseUrl, { days: 75, perDay: 3 });
    return made.world;
  });
  const portal = await startPortalOn(database.url, database.world);
  return {
    ...portal,
    async [Symbol.asyncDispose]() {
      await portal[Symbol.asyncDispose]();
      await database.drop();
    },
  };
}

/** The portal on a migrated database: one with a world in it, or an empty one, in which a world of this size is made. */
export async function startPortalOn(databaseUrl: string, world: World | WorldSize): Promise<Portal> {
  const clock = new ClockAhead();
  const gateway = await startTestGateway({
    clock,
    databaseUrl,
    portal: builtPortal(),
    env: {
      BOOTSTRAP_EMAIL: users.operator.email,
      BOOTSTRAP_PASSWORD: users.operator.password,
      UPSTREAM_NIMBUS_KEY: 'the key of nimbus',
    },
  });
  try {
    return {
      url: gateway.url,
      gateway,
      world: 'people' in world ? world : await makeWorld(gateway, world),
      travel: (ms) => {
        clock.aheadMs += ms;
      },
      [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
    };
  } catch (error) {
    await gateway[Symbol.asyncDispose]();
    throw error;
  }
}
