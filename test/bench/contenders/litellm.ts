import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Contender } from '../contender.ts';
import { installFromPyPI } from '../install.ts';
import { models } from '../workloads.ts';

const version = '1.106.2';

/**
 * LiteLLM's proxy, one worker, with its master key as the only key. Its virtual keys and its metering need Prisma's query engine, which
 * neither PyPI nor npm has (it comes from binaries.prisma.sh at first use), so it does less here than it would with them.
 */
export const litellm: Contender = {
  name: 'litellm',
  title: `LiteLLM proxy ${version}`,
  duties: 'checks its master key, counts tokens and cost in memory; no virtual keys, no metering to a database',
  async prepare({ upstreamUrl, port, folder, downloads }) {
    const venv = await installFromPyPI(downloads, `litellm-${version}`, [`litellm[proxy]==${version}`]);
    const config = join(folder, 'config.json');
    const token = 'sk-bench-master-key';
    writeFileSync(config, configuration(upstreamUrl, token));
    return {
      command: [
        join(venv, 'bin/litellm'),
        ...['--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'],
      ],
      cwd: folder,
      // Without this, the start waits for a price list from another site.
      env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR', LITELLM_MODE: 'PRODUCTION' },
      headers: {},
      token,
    };
  },
};

/** JSON is also valid YAML. */
const configuration = (upstreamUrl: string, masterKey: string): string =>
  JSON.stringify({
    model_list: Object.values(models).map((model) => ({
      model_name: model,
      litellm_params: { model: `openai/${model}`, api_base: `${upstreamUrl}/v1`, api_key: 'sk-upstream' },
    })),
    litellm_settings: { telemetry: false, num_retries: 0 },
    general_settings: { master_key: masterKey },
  });
