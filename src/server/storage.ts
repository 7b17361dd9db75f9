/** Owns opening the storage that an option's text names. Knows no backend but by name. */
import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileRecordNames, fileStorage, fileTarget, memoryStorage, type Log, type PetStorage, type TextTarget } from '../index.js';
import { Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/** A storage that is named, but not opened yet. */
export interface NamedStorage {
  /** As the operator wrote it, without what is secret. */
  readonly text: string;
  /** Whether animals outlive the process in it. */
  readonly isDurable: boolean;
  /** Opens it; rejects with a PetstoreError `storage_…`, or with a Refusal of a database that was not migrated. */
  readonly open: (log: Log) => Promise<PetStorage>;
  /** The same to be copied from, or to be compared with a copy; absent where nothing lasts. */
  readonly openToCopy?: (log: Log) => Promise<PetStorage>;
  /** The same for what is known to be the same storage, however it is spelt. */
  readonly place: string;
  /** Whether it is there already; absent where opening it makes nothing. */
  readonly isThere?: () => boolean;
  /** Opens it to be copied to, its animals or the records of a name; absent where nothing lasts. */
  readonly openTarget?: (records?: string) => Promise<TextTarget>;
  /** The names of what plugins keep in it; `log` hears of what only may be that. */
  readonly recordNames: (log: Log) => Promise<readonly string[]>;
  /** Makes the tables of a database, or brings them up to date; absent where there are none. Answers what it did. */
  readonly migrate?: () => Promise<string>;
}

/** @throws Refusal for a text that names no storage; it is not repeated, for it may hold a password. */
export function readStorage({ text, from }: Setting): NamedStorage {
  if (text === 'memory:') return { text, isDurable: false, place: text, open: async () => memoryStorage(), recordNames: async () => [] };
  const path = text.startsWith('file:') ? text.slice('file:'.length) : '';
  if (path !== '') {
    const open = (log: Log): Promise<PetStorage> => fileStorage(path, { log });
    return {
      text,
      isDurable: true,
      place: realPath(path),
      open,
      openToCopy: open,
      isThere: () => existsSync(path),
      openTarget: (records) => fileTarget(path, records),
      recordNames: (log) => fileRecordNames(path, log),
    };
  }
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) return databaseOf(text, from);
  throw new Refusal(`${from} must be file:PATH, such as file:data/pets.jsonl, memory:, or a URL such as postgres://user:password@host:5432/database`);
}

function databaseOf(url: string, from: string): NamedStorage {
  const text = withoutSecrets(url);
  // Imported only here: nobody else pays for it.
  const postgres = () => import('../postgres.js');
  const migrated = async (): ReturnType<typeof postgres> => {
    const imported = await postgres();
    if (await imported.isMigrated(url)) return imported;
    throw new Refusal(`${from} ${text} has no tables of this petstore; make them with \`petstore migrate --storage URL\``);
  };
  return {
    text,
    isDurable: true,
    place: url,
    open: async (log) => (await migrated()).postgresStorage(url, { log }),
    openToCopy: async (log) => (await migrated()).postgresSource(url, { log }),
    openTarget: async (records) => (await postgres()).postgresTarget(url, records),
    recordNames: async () => (await postgres()).postgresRecordNames(url),
    migrate: async () => {
      const { from: before, to } = await (await postgres()).migratePostgres(url);
      return before === to ? `${text} is up to date: version ${to}` : `${text} has the tables of the petstore: version ${to}, before ${before}`;
    },
  };
}

/** A path behind all its links, or as it is where nothing is there. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** Where it is and what it is called: a password may stand before the host or among the parameters. */
function withoutSecrets(url: string): string {
  const { protocol, username, host, pathname } = new URL(url);
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
}
