import { fileURLToPath } from 'node:url';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/',
  plugins: [react(), tailwindcss()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    // A data: URL would violate the policy that scripts and worklets come from 'self'.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  // `vite edge/portal` is for development against a gateway on its default port.
  server: {
    proxy: Object.fromEntries(
      ['/api', '/v1', '/retirements', '/healthz', '/readyz'].map((path) => [
        path,
        { target: 'http://127.0.0.1:8080', ws: true },
      ]),
    ),
  },
});
