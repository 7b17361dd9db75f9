/** The storages that options name. */
import { existsSync, realpathSync } from 'node:fs';
import {
  fileImport,
  fileRecordNames,
  fileStorage,
  fileTarget,
  type ImportSource,
  type ImportTarget,
  type Log,
  type PetDraft,
  type PetStorage,
  type TextTarget,
} from '../index.js';
import { program, refuse } from './output.js';
import type { Setting } from './settings.js';

/** A storage that lasts, which an option names. */
export interface NamedStorage {
  /** As the operator wrote it, without a password. */
  readonly text: string;

  /**
   * Tells storages apart: two names of one file have the same place, while two URLs of one database
   * may not. Empty for a file that is not there yet.
   */
  readonly place: string;

  /**
   * Opens it. To serve, also for `--dev`, it waits for a database that cannot be reached; for
   * `--dev` it brings the tables of a database up to date, too.
   */
  readonly open: (use: 'serve' | 'dev' | 'copy', log: Log) => Promise<PetStorage>;

  /** Opens it to import a source. */
  readonly openImport: (source: ImportSource, log: Log) => Promise<ImportTarget>;

  /**
   * Adds animals in one step (F12) where there are none yet; answers false where there are. Nobody
   * in this process may have it open.
   */
  readonly seed: (drafts: readonly PetDraft[], source: string, log: Log) => Promise<boolean>;

  /** Opens its animals, or the records of a name, to copy others to them. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;

  /** The names of the records that plugins keep in it. */
  readonly recordNames: (log: Log) => Promise<readonly string[]>;

  /** Makes the tables of a database, or brings them up to date; answers which, in words. */
  readonly migrate?: () => Promise<string>;
}

/**
 * The storage that a setting names; undefined for `memory:`.
 *
 * @throws Refusal, which does not repeat the text: it may hold a password
 */
export async function readStorage({ text, from }: Setting): Promise<NamedStorage | undefined> {
  if (text === 'memory:') return undefined;
  return text.startsWith('file:') && text !== 'file:' ? fileOf(text) : databaseOf(text, from);
}

function fileOf(text: string): NamedStorage {
  const path = text.slice('file:'.length);
  const hint = `see \`${program} check ${path}\``;

  return {
    text,
    place: existsSync(path) ? realpathSync(path) : '',

    open: (_use, log) => fileStorage(path, { log, hint }),

    openImport: async (source, log) => {
      let openingLog: Log | undefined = log;
      const openLog: Log = (...line) => openingLog?.(...line);
      const target = await fileImport(path, source, { log: openLog, hint });
      // Once the target is open, the import itself says why it failed.
      openingLog = undefined;
      return target;
    },

    seed: async (drafts, source, log) => {
      const target = await fileImport(path, source, { log, hint });
      try {
        if (target.isEmpty) await target.add(drafts);
      } finally {
        await target.close();
      }
      return target.isEmpty;
    },

    openTarget: (records) => fileTarget(path, records),
    recordNames: (log) => fileRecordNames(path, log),
  };
}

async function databaseOf(url: string, from: string): Promise<NamedStorage> {
  // This is imported only here, as most servers do without.
  const postgres = await import('../postgres/index.js');

  const wantedUrl = postgres.wantedUrl(url);
  if (wantedUrl !== undefined)
    refuse(`${from} must be file:PATH, such as file:data/pets.jsonl, memory:, or ${wantedUrl}`);

  // What may hold a password is left out: the rest of the user information, and the parameters.
  const { protocol, username, host, pathname } = new URL(url);
  const user = username && `${username}@`;
  const text = `${protocol}//${user}${host}${pathname}`;

  const migrate = async () => {
    const { from: before, to } = await postgres.migratePostgres(url);
    if (before === to) return `${text} is up to date: version ${to}`;
    return `${text} has the tables of the petstore: version ${to}, before ${before}`;
  };

  const refuseMissing = (error: unknown): never => {
    if (!(error instanceof postgres.MissingTables)) throw error;
    const hint = `make them with \`${program} migrate --storage URL\``;
    refuse(`${from} ${text} has no tables of this petstore; ${hint}`);
  };

  const open: NamedStorage['open'] = async (use, log) => {
    if (use === 'dev') await migrate();
    const options = { log, isSource: use === 'copy' };
    return postgres.postgresStorage(url, options).catch(refuseMissing);
  };

  return {
    text,
    place: url,

    open: (use, log) =>
      use === 'copy' ? open(use, log) : postgres.waitForDatabase(() => open(use, log), log),

    openImport: (source, log) => postgres.postgresImport(url, source, log).catch(refuseMissing),
    seed: (drafts, _source, log) => postgres.seedPostgres(url, drafts, log),
    openTarget: (records) => postgres.postgresTarget(url, records),
    recordNames: () => postgres.postgresRecordNames(url),
    migrate,
  };
}
