/** Owns loading what few processes need of a storage, when it is called. Knows nothing of what that does; its own module tells. */

/** Opens the storage in a file of JSON Lines, made where missing; rejects with a PetstoreError `storage_…`, one line each. */
export const fileStorage = onDemand(async () => (await import('./file.js')).fileStorage);

/** Copies the animals that a storage lacks of another's. */
export const copyPets = onDemand(async () => (await import('./copy.js')).copyPets);

/** The same for what a plugin keeps under a name. */
export const copyRecords = onDemand(async () => (await import('./copy.js')).copyRecords);

/** Opens a storage file to be copied to. */
export const fileTarget = onDemand(async () => (await import('./file-target.js')).fileTarget);

/** The names of what plugins keep beside a storage file. */
export const fileRecordNames = onDemand(async () => (await import('./file-target.js')).fileRecordNames);

/** Reads a storage file to its end, or to what is wrong. */
export const checkFile = onDemand(async () => (await import('./check.js')).checkFile);

/** Writes what is sound of a damaged storage file into a new one. */
export const salvageFile = onDemand(async () => (await import('./salvage.js')).salvageFile);

/** The function that is loaded, each time that it is called; Node loads it once. */
function onDemand<Given extends unknown[], Result>(load: () => Promise<(...given: Given) => Promise<Result>>): (...given: Given) => Promise<Result> {
  return async (...given) => (await load())(...given);
}
