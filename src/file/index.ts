/** The storage that lasts: animals in their file, what plugins keep in files beside it. */
import { resolve } from 'node:path';
import {
  commitWatchers,
  groupCommit,
  untilClosed,
  type KeyUse,
  Catalogue,
  checkOnce,
  closedError,
  IdempotencyKeys,
  petsOf,
  petTexts,
  RecordNames,
  recordsWhenOpen,
  type Unnumbered,
  petJson,
  withId,
} from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import {
  idempotencyLine,
  importLine,
  openJournal,
  type JournalOptions,
  type OnCommit,
} from '../journal/index.js';
import { int64Max } from '../json.js';
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type {
  ImportTarget,
  InsertOnce,
  PetQuery,
  PetStorage,
  RecordKind,
  StoredText,
  TextTarget,
} from '../storage.js';
import { anyRecords, petLines, recordLines } from './record-lines.js';

export {
  checkFile,
  salvageFile,
  type FileReport,
  type LeftOutLine,
  type SalvageReport,
} from './check.js';
export { copyPets, copyRecords, fileRecordNames } from './copy.js';
export type { CopyProgress, CopyReport, CopyTarget } from './copy.js';
// For tests.
export { petLines } from './record-lines.js';

/** What a file storage may be given. */
export type FileStorageOptions = Pick<JournalOptions, 'log' | 'clock' | 'disk' | 'mend'>;

/**
 * Opens a file of JSON Lines, made where missing (F8), for this process alone; records of plugins
 * are in `PATH.NAME`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4), `storage_damaged` (F3), in
 * one line.
 */
export async function fileStorage(
  path: string,
  options: FileStorageOptions = {},
): Promise<PetStorage> {
  checkNames('option of fileStorage', options, ['log', 'clock', 'disk', 'mend']);
  const petsPath = resolve(path);
  const pets = await openFileRecords(petsPath, options, petLines);
  const beside: Promise<{ ready(): Promise<void>; close(): Promise<void> }>[] = [];
  const names = new RecordNames();
  let closing: Promise<unknown> | undefined;

  const texts = petTexts(pets.texts);
  return {
    ...petsOf(texts),
    texts,
    durable: true,
    get size() {
      return pets.catalogue.size;
    },
    get waiting() {
      return pets.commits.waiting;
    },
    onCommit: pets.onCommit,
    records: <Draft>(name: string, kind: RecordKind<Draft>) => {
      const open = async () => {
        names.take(name);
        if (closing) throw closedError();
        const own = { ...options, mend: 'put a copy from before in its place' };
        const opening = openFileRecords(`${petsPath}.${name}`, own, recordLines(kind));
        // Not a name that was refused, or the storage would never be ready.
        beside.push(opening);
        return (await opening).texts;
      };
      return recordsWhenOpen(kind, open());
    },
    ready: async () => {
      await pets.ready();
      const others = await Promise.all(beside).catch((cause: unknown) => {
        throw new PetstoreError('unavailable', 'What is kept beside the animals is not open.', {
          cause,
        });
      });
      for (const records of others) await records.ready();
    },
    close: async () => {
      const closeOpened = async (opening: (typeof beside)[number]) =>
        (await opening.catch(() => undefined))?.close();
      closing ??= Promise.all([pets.close(), ...beside.map(closeOpened)]);
      await closing;
    },
  };
}

/**
 * Opens a storage's file, or that of the records of a name, to add at its end. @throws as
 * `fileStorage`
 */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  const isPets = records === undefined;
  const ownPath = isPets ? resolve(path) : `${resolve(path)}.${records}`;
  let lastId = 0n;
  const accept = (isPets ? petLines : recordLines(anyRecords))((id) => (lastId = id));
  const { append, close } = await openJournal(ownPath, {}, accept);
  return {
    adopt: async (texts) => {
      for (const { id } of texts) {
        if (id <= lastId)
          throw new PetstoreError(
            'storage_unusable',
            `${ownPath} has an id of ${lastId}, which ${id} cannot follow`,
          );
        lastId = id;
      }
      await append(texts.map(({ json }) => json));
    },
    close,
  };
}

/**
 * Opens a storage's file to import one source, told by its SHA-256 in small hexadecimal digits:
 * each batch and the place behind it are one commit (F11). `isEmpty` says whether it holds no
 * animal. @throws as `fileStorage`
 */
export async function fileImport(path: string, source: string, options: FileStorageOptions = {}) {
  let lastId = 0n;
  let place = 0;
  const takePlace: OnCommit = (imported) => {
    if (imported?.source === source) place = imported.place;
  };
  const takeId = petLines((id) => (lastId = id));
  const { append, close } = await openJournal(resolve(path), options, takeId, takePlace);

  async function add(drafts: readonly PetDraft[]): Promise<number> {
    checkIdsLeft(lastId, drafts.length);
    const next = { source, place: place + drafts.length };
    await append([
      importLine(next),
      ...drafts.map((draft, index) => petJson(lastId + BigInt(index + 1), draft)),
    ]);
    lastId += BigInt(drafts.length);
    return (place = next.place);
  }

  const target: ImportTarget = { start: place, add, close };
  return { ...target, isEmpty: lastId === 0n };
}

/** A file written by hand may hold the last id. @throws PetstoreError `unavailable` */
function checkIdsLeft(lastId: bigint, count: number): void {
  if (int64Max - lastId < BigInt(count))
    throw new PetstoreError('unavailable', 'There are no ids left.');
}

const noAnswer = 'The disk does not answer.';

/** A record that waits for its commit, with its idempotency key. */
interface Waiting extends Unnumbered {
  readonly use: KeyUse | undefined;
}

/** Opens a file of animals, or of a plugin's records. @throws as `openJournal` */
async function openFileRecords(
  path: string,
  options: JournalOptions,
  acceptorFor: typeof petLines,
) {
  const catalogue = new Catalogue();
  const idempotencyKeys = new IdempotencyKeys();
  const restore = acceptorFor((id, status, json, once) => {
    catalogue.add(id, status, json);
    if (once) idempotencyKeys.restore(once, { id, json });
  });
  const journal = await openJournal(path, options, restore);
  const watchers = commitWatchers(options.log);
  let closed = false;
  const endUse = ({ use }: Waiting) => {
    if (use) idempotencyKeys.drop(use);
  };
  const commits = groupCommit<Waiting, StoredText>({
    commit: (adds) =>
      append(adds).catch((error: unknown) => {
        // Maybe long after the client was answered.
        for (const add of adds) endUse(add);
        throw error;
      }),
    abandoned: endUse,
    bytesOf: ({ rest, use }) => rest.length + (use ? 640 : 128),
    hung: noAnswer,
  });

  /** Ids are given only now, so that a batch that fails leaves no gap. */
  async function append(adds: readonly Waiting[]) {
    checkIdsLeft(catalogue.lastId, adds.length);
    const firstId = catalogue.lastId + 1n;
    const batch: string[] = [];
    const records = adds.map(({ status, rest, use }, index) => {
      const id = firstId + BigInt(index);
      const json = withId(id, rest);
      // In this order a torn write leaves no animal without its idempotency record; a record alone
      // is cut off.
      if (use) batch.push(idempotencyLine(use));
      batch.push(json);
      return { stored: { id, json }, status, use };
    });
    const syncMilliseconds = await journal.append(batch);
    for (const { stored, status, use } of records) {
      catalogue.add(stored.id, status, stored.json);
      if (use) idempotencyKeys.keep(use, stored);
    }
    watchers.tell({ count: records.length, syncMilliseconds });
    return records.map(({ stored }) => stored);
  }

  const opened = () => {
    if (closed) throw closedError();
    return catalogue;
  };

  return {
    catalogue,
    commits,
    onCommit: watchers.add,
    texts: {
      insert: (record: Unnumbered) => commits.add({ ...record, use: undefined }),
      insertOnce: (record: Unnumbered, once: InsertOnce) => {
        checkOnce(once);
        opened();
        const use = idempotencyKeys.begin(once);
        return use.added ?? commits.add({ ...record, use });
      },
      get: (id: bigint) => opened().get(id),
      list: (query: PetQuery) => opened().page(query),
    },
    ready: async () => {
      opened();
      if (commits.hung) throw new PetstoreError('unavailable', noAnswer);
      checkIdsLeft(catalogue.lastId, 1);
      await journal.checkReady();
    },
    close: async () => {
      closed = true;
      await commits.close();
      await untilClosed(journal.close());
    },
  };
}
