import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { enableCompileCache, flushCompileCache, registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';

// What a process has learnt of its modules is kept for the next: their compiled code, and where each of their 8,000 imports leads, which is
// found by looking at thousands of folders. Without it a start takes about twice as long. In JavaScript, and before all else
// (`node --import`): a process that finds all its modules here never loads what strips types.

const root = new URL('../../', import.meta.url).href;
// Beside the packages, so that a new installation starts with an empty one; where it cannot be written there is none.
const folder = fileURLToPath(new URL('node_modules/.cache/model-gateway', root));
const file = `${folder}/imports.json`;

/** @typedef {{ url: string, format?: string | null }} Found */
/** @type {Record<string, Record<string, Found>>} What an import of a module, by their URL and specifier, leads to. */
let found = {};
/** Files that imports lead to, which were seen to be there. */
const present = new Set();
let installation = '';
let hasNews = false;
/** @type {ReturnType<typeof registerHooks> | undefined} */
let hooks;

enableCompileCache(folder);
// A worker thread loads little. Others that say where imports lead, such as tracers, have to be asked each time.
if (isMainThread && !othersSayWhere()) {
  installation = installed();
  const kept = keptImports();
  if (kept?.installed === installation) found = kept.found;
  hooks = registerHooks({ resolve });
  process.once('exit', keepModules);
}

function othersSayWhere() {
  const options = [...process.execArgv, process.env.NODE_OPTIONS].join(' ').replace(/--import \S*module-cache\.js/, '');
  return /(^|\s)(--import|--require|-r|--loader|--experimental-loader|--conditions|-C)\b/.test(options);
}

/** @returns {{ installed: string, found: typeof found } | undefined} */
function keptImports() {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    // There is none yet, or not a whole one.
    return undefined;
  }
}

/** What else decides where an import leads: npm changes its list with the packages. */
function installed() {
  const contents = ['package.json', 'node_modules/.package-lock.json'].map((name) => {
    try {
      return readFileSync(new URL(name, root), 'utf8');
    } catch {
      return '';
    }
  });
  return hash('sha256', [process.version, root, ...contents].join('\n'));
}

/** @type {import('node:module').ResolveHookSync} */
function resolve(specifier, context, next) {
  const { parentURL, conditions } = context;
  // What `require` asks for is found quickly.
  if (!parentURL?.startsWith(root) || !conditions.includes('import')) return next(specifier, context);
  found[parentURL] ??= {};
  const known = found[parentURL][specifier];
  if (known !== undefined && isPresent(known.url)) return { ...known, shortCircuit: true };
  const { url, format } = next(specifier, context);
  found[parentURL][specifier] = { url, format };
  hasNews = true;
  return { url, format };
}

/** @param {string} url A package that is missing, though the list of packages has it, is to be told by its name. */
function isPresent(url) {
  if (!url.startsWith('file:') || present.has(url)) return true;
  if (!existsSync(fileURLToPath(url))) return false;
  present.add(url);
  return true;
}

/** Keeps what the process has learnt so far, since a killed one writes nothing at its end. What it loads later is little. */
export function keepModules() {
  flushCompileCache();
  if (hooks === undefined) return;
  hooks.deregister();
  hooks = undefined;
  if (hasNews) {
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(`${file}.${process.pid}`, JSON.stringify({ installed: installation, found }));
      renameSync(`${file}.${process.pid}`, file);
    } catch {
      // As for compiled code: nothing can be kept in a folder that is not to be written.
    }
  }
  found = {};
}
