import { totalmem } from 'node:os';

/** The share of the memory that each kind of large bodies may have (requests, results of jobs, answers), and at most so many bytes. */
const bodiesShare = 1 / 8;
const bodiesBytesMax = 4 * 1024 ** 3;

/** What this process may have of memory, in bytes. */
export const memoryBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** What one kind of bodies may have of so much memory, in bytes. */
export const bodiesMemory = (bytes: number): number => Math.min(bytes * bodiesShare, bodiesBytesMax);
