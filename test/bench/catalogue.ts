/**
 * Owns filling servers with animals: over HTTP, or as a storage file written at once. Knows no
 * figure.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { batchBytes } from '../../dist/journal/index.js';
import { ask, WrongAnswer } from './answers.js';
import { draftOf, post } from './operations.js';
import type { Server } from './session.js';

/** How many animals each server of the speed figures holds. */
const standardCount = 1_000;

/** Adds the first animals one behind the other, so that all servers give them the same ids. */
export async function fill(server: Pick<Server, 'name' | 'url'>): Promise<void> {
  for (let number = 1; number <= standardCount; number++) {
    const { status } = await ask(server, 'an animal that is added', post(draftOf(number)));
    if (status !== 201)
      throw new WrongAnswer(`${server.name} answers an animal that is added with ${status}`);
  }
}

/**
 * How many of a written file's animals are pending, however large it is: the rarest status, with
 * the same page of it.
 */
export const rarestCount = 25;

const batchLines = 1_000;

/**
 * The id of a written file's first animal: all ids of all files have as many digits, so that their
 * pages are as long.
 */
export const firstWrittenId = 1_000_001;

/**
 * Writes a storage file of so many animals, a thousand in each commit. Answers its size in bytes.
 */
export function writeCatalogue(path: string, count: number): number {
  const descriptor = openSync(path, 'wx', 0o600);
  const rareEvery = Math.floor(count / rarestCount);
  let size = 0;
  for (let first = 0; first < count; first += batchLines) {
    const length = Math.min(batchLines, count - first);
    const lines = Array.from({ length }, (_, index) => lineOf(first + index, rareEvery));
    size += writeSync(descriptor, batchBytes(lines, size));
  }
  closeSync(descriptor);
  return size;
}

function lineOf(position: number, rareEvery: number): string {
  const id = firstWrittenId + position;
  const status = position % rareEvery === 0 ? 'pending' : position % 3 === 0 ? 'sold' : 'available';
  return `{"id":${id},"name":"Animal ${id}","categoryId":${1 + (id % 40)},"status":"${status}"}`;
}
