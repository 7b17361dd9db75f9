/** Writes storage files with many pets. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { batchBytes } from '../../dist/journal/index.js';

/**
 * The number of pending pets in a file of any size, so that their page always has the same size.
 */
export const rarestCount = 25;

const batchLines = 1_000;

/**
 * The id of the first pet. All ids have the same number of digits, so that pages are equally long.
 */
export const firstWrittenId = 1_000_001;

/** Writes a storage file of `count` pets, a thousand in a batch, and returns its size in bytes. */
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
  return `{"id":${id},"name":"Kitten ${id}","categoryId":${1 + (id % 40)},"status":"${status}"}`;
}
