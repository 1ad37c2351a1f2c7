/** The sandbox provider: an upstream without a network, for trying, testing and load. */
export type { ModelKnobs, SandboxKnobs } from './knobs.ts';
export { type SandboxModel, type SandboxPrice, sandboxModels } from './models.ts';
export { createSandbox, type SandboxDeps } from './sandbox.ts';
