import { totalmem } from 'node:os';

/** The share of the memory that each kind of large body may take (requests, results of jobs, answers), and its upper limit in bytes. */
const bodiesShare = 1 / 8;
const bodiesBytesMax = 4 * 1024 ** 3;

/** How much memory this process may use, in bytes. */
export const memoryBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** How much one kind of body may take of this much memory, in bytes. */
export const bodiesMemory = (bytes: number): number => Math.min(bytes * bodiesShare, bodiesBytesMax);
