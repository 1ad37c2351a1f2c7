import { join } from 'node:path';
import type { Contender } from '../contender.ts';
import { installFromNpm } from '../install.ts';

const version = '1.15.2';
/**
 * The version of @hono/node-server, in the range that Portkey names. From 1.14.2 on, Portkey answers all streams and embeddings with 500
 * ("TypeError: immutable", Portkey-AI/gateway issue 1389).
 */
const nodeServerVersion = '1.14.1';

/**
 * Portkey's open-source gateway, in the Node that runs the benchmark. It has neither keys nor metering: those are in its hosted product.
 */
export const portkey: Contender = {
  name: 'portkey',
  title: `Portkey ${version}`,
  duties: 'routing by header; no keys, no metering',
  async prepare({ upstreamUrl, port, downloads }) {
    const name = `portkey-${version}-${nodeServerVersion}`;
    const overrides = { '@hono/node-server': nodeServerVersion };
    const folder = await installFromNpm(downloads, name, [`@portkey-ai/gateway@${version}`], overrides);
    const script = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
    return {
      command: [process.execPath, script, `--port=${port}`, '--headless'],
      env: { NODE_ENV: 'production' },
      headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstreamUrl}/v1` },
      token: 'sk-upstream',
    };
  },
};
