/** Owns a storage file as the target of a copy: animals with their ids, a commit for each batch. Keeps none in memory. */
import { resolve } from 'node:path';
import { PetstoreError } from '../errors.js';
import type { PetTarget } from './copy.js';
import { nodeDisk } from './disk.js';
import { lockingOn } from './lock.js';
import { openJournal } from './open-journal.js';
import { petLines } from './pet-lines.js';

/** Opens the file at a path, making it where missing, to copy animals to its end. @throws as `fileStorage` */
export async function fileTarget(path: string): Promise<PetTarget> {
  let lastId = 0n;
  const options = { disk: nodeDisk, locking: lockingOn(process.platform), log: () => undefined, clock: Date.now };
  const journal = await openJournal(resolve(path), options, petLines((id) => (lastId = id)));
  return {
    adopt: async (pets) => {
      for (const { id } of pets) {
        if (id <= lastId) throw new PetstoreError('storage_unusable', `${path} has an animal of id ${lastId}, which ${id} cannot follow`);
        lastId = id;
      }
      await journal.append(pets.map(({ json }) => json));
    },
    close: () => journal.close(),
  };
}
