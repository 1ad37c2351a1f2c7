import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// Beside the packages, so that a new installation starts with an empty one; where it cannot be written there is none.
// In JavaScript, and before all else (`node --import`): a start that finds all its modules here never loads what strips types.
export const compileCacheFolder = fileURLToPath(new URL('../../node_modules/.cache/model-gateway', import.meta.url));
enableCompileCache(compileCacheFolder);
