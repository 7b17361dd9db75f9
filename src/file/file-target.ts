/** Opens storage files to copy or to import into them. */
import { importedStart, petJson } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import { importLine, openJournal, type OnCommit } from '../journal/index.js';
import type { PetDraft } from '../pet.js';
import type { ImportSource, ImportTarget, TextTarget } from '../storage.js';
import { toJournalOptions, type FileStorageOptions } from './file-options.js';
import { checkIdsLeft } from './file-storage.js';
import { anyRecords, petLines, recordLines } from './record-lines.js';
import { storagePath } from './storage-path.js';

/**
 * Opens a storage's file, or the file of a plugin's records, to add texts that have ids already.
 * @throws PetstoreError as `fileStorage`
 */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  const isPets = records === undefined;
  const ownPath = isPets ? storagePath(path) : `${storagePath(path)}.${records}`;
  let lastId = 0n;
  const accept = (isPets ? petLines : recordLines(anyRecords))((id) => (lastId = id));
  const { append, close } = await openJournal(ownPath, {}, accept);

  return {
    adopt: async (texts) => {
      for (const { id } of texts) {
        if (id <= lastId)
          throw new PetstoreError(
            'storage_unusable',
            `${ownPath} has id ${lastId}, so that id ${id} cannot be added`,
          );

        lastId = id;
      }

      await append(texts.map(({ json }) => json));
    },
    close,
  };
}

/** An import into a file. */
export interface FileImport extends ImportTarget {
  /** True if the file had no pets when it was opened. */
  readonly isEmpty: boolean;
}

/**
 * Opens a storage's file to import one source. Each commit contains a batch and the place in the
 * source after it (F11).
 * @param source The source, or only its SHA-256 in lowercase hexadecimal digits.
 * @throws PetstoreError as `fileStorage`
 */
export async function fileImport(
  path: string,
  source: string | ImportSource,
  options: FileStorageOptions = {},
): Promise<FileImport> {
  let lastId = 0n;
  const places = new Map<string, number>();
  const takePlace: OnCommit = (imported) => {
    if (imported) places.set(imported.source, imported.place);
  };

  const takeId = petLines((id) => (lastId = id));
  const { append, close } = await openJournal(
    storagePath(path),
    toJournalOptions(options),
    takeId,
    takePlace,
  );

  const whole = typeof source === 'string' ? { digest: source } : source;
  const start = importedStart(whole, places);
  let place = start;

  async function add(drafts: readonly PetDraft[], startDigest?: string): Promise<number> {
    checkIdsLeft(lastId, drafts.length);

    let id = lastId;
    const lines = drafts.map((draft) => petJson(++id, draft));
    const next = { source: startDigest ?? whole.digest, place: place + drafts.length };
    await append([importLine(next), ...lines]);

    lastId = id;
    return (place = next.place);
  }

  return { start, add, close, isEmpty: lastId === 0n };
}
