import { join } from 'node:path';
import type { Contender } from '../contender.ts';
import { installFromNpm } from '../install.ts';

const version = '1.15.2';

/** Portkey's open gateway in the Node that runs the benchmark. It knows neither keys nor metering: those are in its hosted product. */
export const portkey: Contender = {
  name: 'portkey',
  title: `Portkey ${version}`,
  duties: 'routing by header; no keys, no metering',
  async prepare({ upstreamUrl, port, downloads }) {
    const folder = await installFromNpm(downloads, `portkey-${version}`, [`@portkey-ai/gateway@${version}`]);
    const script = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
    return {
      command: [process.execPath, script, `--port=${port}`, '--headless'],
      env: { NODE_ENV: 'production' },
      headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstreamUrl}/v1` },
      token: 'sk-upstream',
    };
  },
};
