/** Parses the storage that an option names, and opens it for the commands. */
import { realpathSync } from 'node:fs';
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
import type { Setting } from './setting-text.js';
import { suggestion } from './suggestion.js';

/** A durable storage that an option names. */
export interface NamedStorage {
  /** The value of the option, without a password. */
  readonly text: string;

  /**
   * Identifies the storage: the real path of a file, or the URL of a database. Empty if the file
   * does not exist.
   */
  readonly place: string;

  /**
   * Opens the storage. For `serve` and `dev` it waits for a database that is not reachable. For
   * `dev` it also migrates the database.
   */
  readonly open: (use: 'serve' | 'dev' | 'copy', log: Log) => Promise<PetStorage>;

  /** Opens the storage to import a source. */
  readonly openImport: (source: ImportSource, log: Log) => Promise<ImportTarget>;

  /**
   * Adds pets in one commit (F12) if the storage has none; returns false otherwise. This process
   * must not have the storage open.
   */
  readonly seed: (drafts: readonly PetDraft[], source: string, log: Log) => Promise<boolean>;

  /**
   * Runs work on the open storage. If a database fails for a reason that may go away, it waits and
   * runs the work again.
   */
  readonly retry: <Value>(work: () => Promise<Value>, log: Log) => Promise<Value>;

  /** Opens the pets, or a plugin's records of this name, as the target of a copy. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;

  /** Returns the names of the records that plugins keep in the storage. */
  readonly recordNames: (log: Log) => Promise<readonly string[]>;

  /** Creates or updates the tables of a database, and returns a message with both versions. */
  readonly migrate?: (warn: (warning: string) => void) => Promise<string>;
}

/**
 * Returns the storage that a setting names; undefined for `memory:`.
 *
 * @throws Refusal, without the text because it may contain a password
 */
export async function readStorage({ text, from }: Setting): Promise<NamedStorage | undefined> {
  if (text === 'memory:') return undefined;
  return text.startsWith('file:') && text !== 'file:' ? namedFile(text) : namedDatabase(text, from);
}

/** Returns the real path of a file; empty if it cannot be found, which opening the file reports. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return '';
  }
}

function namedFile(text: string): NamedStorage {
  const path = text.slice('file:'.length);
  const hint = `see \`${program} check ${path}\``;

  return {
    text,
    place: realPathOf(path),

    open: (_use, log) => fileStorage(path, { log, hint }),

    openImport: async (source, log) => {
      let openingLog: Log | undefined = log;
      const openLog: Log = (...line) => openingLog?.(...line);
      const target = await fileImport(path, source, { log: openLog, hint });
      // Once the target is open, `import` reports its errors itself.
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

    retry: (work) => work(),
    openTarget: (records) => fileTarget(path, records),
    recordNames: (log) => fileRecordNames(path, log),
  };
}

/**
 * Returns the end of the message about a text that is no storage. It shows only a path, because
 * another text may contain a password.
 */
function storageHint(text: string): string {
  if (/^[\w./-]{1,60}\.jsonl?$/.test(text)) return `; did you mean file:${text}?`;
  const scheme = /^[a-z]*/i.exec(text)?.[0] ?? '';
  if (scheme === 'file') return '';
  return suggestion(scheme, ['file:', 'memory:', 'postgres:'], '');
}

async function namedDatabase(url: string, from: string): Promise<NamedStorage> {
  // Loaded on demand, so that a server without a database starts faster.
  const postgres = await import('../postgres/index.js');

  if (!postgres.isDatabaseUrl(url))
    refuse(
      `${from} must be file:PATH, such as file:data/pets.jsonl, memory:, ` +
        `or a URL such as postgres://user:password@host:5432/name${storageHint(url)}`,
    );
  const problem = postgres.databaseUrlProblem(url);
  if (problem !== undefined) refuse(`${from} is not a valid URL of a database: ${problem}`);

  // The parameters of the URL may contain a password too.
  const { protocol, username, host, pathname } = new URL(url);
  const user = username && `${username}@`;
  const text = `${protocol}//${user}${host}${pathname}`;

  const migrate = async (warn: (warning: string) => void) => {
    const { from: before, to, warnings } = await postgres.migratePostgres(url);
    for (const warning of warnings) warn(warning);
    if (before === to) return `${text} is up to date: version ${to}`;
    return `${text} is migrated from version ${before} to ${to}`;
  };

  const refuseMissing = (error: unknown): never => {
    // Tables of an earlier version are an error of the storage: after `migrate` a restart helps.
    if (!(error instanceof postgres.MissingTables && error.version === 0)) throw error;
    const hint = `create them with \`${program} migrate --storage URL\``;
    refuse(`${from} ${text} has no petstore tables; ${hint}`);
  };

  const open: NamedStorage['open'] = async (use, log) => {
    if (use === 'dev') await migrate((warning) => log('warn', warning));
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
    retry: postgres.waitForDatabase,
    openTarget: (records) => postgres.postgresTarget(url, records),
    recordNames: () => postgres.postgresRecordNames(url),
    migrate,
  };
}
