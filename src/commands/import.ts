/** Owns the `import` command: animals from a file into a storage, all or, where a line is bad, none. */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { PetstoreError, type PetStorage } from '../index.js';
import { jsonLog } from '../server/json-log.js';
import { print } from '../server/print.js';
import { reasonOf, Refusal } from '../server/refusal.js';
import type { Settings } from '../server/settings.js';
import { readStorage } from '../server/storage.js';
import { draftPieces, type DraftFile } from './draft-pieces.js';
import { Progress } from './progress.js';

/**
 * Runs `import FILE`: reads the file twice, first to check every line, then to add every animal.
 * @throws Refusal for what is wrong with the file; PetstoreError `storage_…` for the storage.
 */
export async function importAnimals(operands: readonly string[], settings: Settings): Promise<number> {
  const [path] = operands;
  if (path === undefined || operands.length > 1) throw new Refusal('`import` needs one FILE of JSON Lines, such as data/animals.jsonl');
  const setting = settings.get('storage');
  const target = readStorage(setting);
  if (!target.isDurable) throw new Refusal(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);
  const progress = new Progress(process.stderr);
  const handle = await openToRead(path);
  try {
    const file = { path, handle, bytes: await sizeOf(path, handle) };
    const total = await countChecked(file, progress);
    let log = jsonLog(process.stderr);
    const storage = await target.open((...said) => log(...said));
    // What it says later, such as a full disk, is said once, with the count.
    log = () => undefined;
    try {
      await addAll(file, total, storage, progress);
    } finally {
      await storage.close();
    }
    progress.clear();
    await print(`${total} animals added to ${target.text}\n`, `${total} animals were added to ${target.text}`);
    return 0;
  } catch (error) {
    progress.clear();
    throw error;
  } finally {
    await handle.close();
  }
}

async function countChecked(file: DraftFile, progress: Progress): Promise<number> {
  let count = 0;
  for await (const { drafts, bytesRead } of draftPieces(file)) {
    count += drafts.length;
    progress.show('checking', bytesRead / file.bytes, count);
  }
  return count;
}

/** A piece at a time: its animals wait together, so that they share the disk's syncs. */
async function addAll(file: DraftFile, total: number, storage: PetStorage, progress: Progress): Promise<void> {
  let added = 0;
  try {
    for await (const { drafts, bytesRead } of draftPieces(file)) {
      const results = await Promise.allSettled(drafts.map((draft) => storage.insert(draft)));
      added += results.filter(({ status }) => status === 'fulfilled').length;
      for (const result of results) if (result.status === 'rejected') throw result.reason;
      progress.show('adding', bytesRead / file.bytes, added);
    }
  } catch (error) {
    if (error instanceof PetstoreError)
      throw new PetstoreError('storage_unusable', `${added} of ${total} animals were added, then: ${error.message}`, { cause: error });
    if (error instanceof Refusal) throw changed(file.path, added, total, error.message);
    throw error;
  }
  if (added !== total) throw changed(file.path, added, total, 'another number of lines');
}

function changed(path: string, added: number, total: number, what: string): Refusal {
  return new Refusal(`${path} changed while it was imported (${what}); ${added} animals were added, where it had ${total}`);
}

async function openToRead(path: string): Promise<FileHandle> {
  try {
    // Without O_NONBLOCK a pipe of this name would be waited for.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw new Refusal(`${path} cannot be read (${reasonOf(error)}); name a file of JSON Lines`);
  }
}

async function sizeOf(path: string, handle: FileHandle): Promise<number> {
  const facts = await handle.stat();
  // It is read twice, which only a file can be.
  if (!facts.isFile()) throw new Refusal(`${path} is not a regular file; name a file of JSON Lines`);
  return facts.size;
}
