import { totalmem } from 'node:os';

/**
 * The share of the memory that each kind of large body may take (requests, requests of running jobs, results of jobs, answers, the sound of
 * utterances), and its upper limit in bytes.
 */
const bodiesShare = 1 / 8;
const bodiesBytesMax = 4 * 1024 ** 3;

/** However little memory there is, a body of the largest size has room: 32 MiB, plus the third of that which one user leaves to others. */
const bodiesBytesMin = 48 * 1024 ** 2;

/** How much memory each of `processes` may use, in bytes: what the machine has, or its container allows. */
export const memoryBytes = (processes = 1): number =>
  Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / processes;

/** How much one kind of body may take of this much memory, in bytes. */
export const bodiesMemory = (bytes: number): number =>
  Math.floor(Math.max(bodiesBytesMin, Math.min(bytes * bodiesShare, bodiesBytesMax)));
