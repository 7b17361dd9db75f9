/** The storages that options name, and the commands `copy` and `migrate`. */
import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { copyPets, copyRecords, fileRecordNames, fileStorage, fileTarget, memoryStorage } from '../index.js';
import type { CopyProgress, CopyReport, Log, PetStorage, TextTarget } from '../index.js';
import { logTo, print, Progress, Refusal } from './output.js';
import { readLogFormat, type Setting, type Settings } from './settings.js';

type Open = (log: Log) => Promise<PetStorage>;

export interface NamedStorage {
  /** As the operator wrote it, without a password. */
  readonly text: string;
  /** Waits for a database that cannot be reached; with `isDev` it brings its tables up to date. */
  readonly openToServe: (log: Log, isDev: boolean) => Promise<PetStorage>;
  /** Absent for `memory:`, which keeps nothing when the process ends. */
  readonly durable?: {
    /** Two names of one storage have the same. */
    readonly place: string;
    readonly isNew: boolean;
    readonly open: Open;
    readonly openToCopy: Open;
    readonly openTarget: (records?: string) => Promise<TextTarget>;
    readonly recordNames: (log: Log) => Promise<readonly string[]>;
  };
  /** Makes the tables of a database, or brings them up to date; answers which. */
  readonly migrate?: () => Promise<string>;
}

/** @throws Refusal, which does not repeat the text: it may hold a password. */
export async function readStorage({ text, from }: Setting): Promise<NamedStorage> {
  if (text === 'memory:') return { text, openToServe: async () => memoryStorage() };
  if (text.startsWith('file:') && text !== 'file:') return fileOf(text, text.slice('file:'.length));
  return databaseOf(text, from);
}

function fileOf(text: string, path: string): NamedStorage {
  const open: Open = (log) => fileStorage(path, { log });
  const isNew = !existsSync(path);
  return {
    text,
    openToServe: open,
    durable: {
      place: isNew ? resolve(path) : realpathSync(path),
      isNew,
      open,
      openToCopy: open,
      openTarget: (records) => fileTarget(path, records),
      recordNames: (log) => fileRecordNames(path, log),
    },
  };
}

async function databaseOf(url: string, from: string): Promise<NamedStorage> {
  // Imported only where a database is named.
  const postgres = await import('../postgres/index.js');
  const wantedUrl = postgres.wantedUrl(url);
  if (wantedUrl !== undefined)
    throw new Refusal(`${from} must be file:PATH, such as file:data/pets.jsonl, memory:, or ${wantedUrl}`);
  const { protocol, username, host, pathname } = new URL(url);
  // Leaves out what may hold a password: the user information and the parameters.
  const text = `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
  const refuseMissingTables = (error: unknown): never => {
    if (!(error instanceof postgres.MissingTables)) throw error;
    const mend = 'make them with `petstore migrate --storage URL`';
    throw new Refusal(`${from} ${text} has no tables of this petstore; ${mend}`);
  };
  const migrate = async () => {
    const { from: before, to } = await postgres.migratePostgres(url);
    if (before === to) return `${text} is up to date: version ${to}`;
    return `${text} has the tables of the petstore: version ${to}, before ${before}`;
  };
  const open: Open = (log) => postgres.postgresStorage(url, { log }).catch(refuseMissingTables);
  return {
    text,
    openToServe: (log, isDev) =>
      postgres.untilThere(async () => {
        if (isDev) await migrate();
        return open(log);
      }, log),
    durable: {
      place: url,
      isNew: false,
      open,
      openToCopy: (log) => postgres.postgresSource(url, { log }).catch(refuseMissingTables),
      openTarget: (records) => postgres.postgresTarget(url, records),
      recordNames: () => postgres.postgresRecordNames(url),
    },
    migrate,
  };
}

/** Runs `copy`: the animals, then what plugins keep. @throws Refusal; PetstoreError `storage_…` */
export async function copy(settings: Settings, operands: readonly string[]): Promise<void> {
  const [fromSetting, toSetting] = [settings.find('--from'), settings.find('--to')];
  if (operands.length > 0 || fromSetting === undefined || toSetting === undefined)
    throw new Refusal('`copy` needs --from STORAGE and --to STORAGE, such as file:data/pets.jsonl');
  const { text: from, durable: source } = await readStorage(fromSetting);
  const { text: to, durable: target } = await readStorage(toSetting);
  if (target === undefined) throw new Refusal(`--to ${to} would forget what is copied; use file:PATH or a database`);
  if (source === undefined) throw new Refusal(`--from ${from} holds nothing to copy; use file:PATH or a database`);
  if (source.place === target.place)
    throw new Refusal(`--from ${from} and --to ${to} are the same; name another to copy to`);
  if (source.isNew) throw new Refusal(`--from ${from} is not there; name a storage that is`);
  const progress = new Progress();
  const log = logTo(process.stderr, readLogFormat(settings, process.stderr));
  const opened = await source.openToCopy(log);
  const copied = { open: () => target.openToCopy(log), openTarget: target.openTarget };
  const report = async (things: string, copying: (show: CopyProgress) => Promise<CopyReport>) => {
    const { count, present, sha256 } = await copying((what, done) => progress.count(what, done, things));
    progress.clear();
    const before = present === 0 ? '' : `, ${present} of them before`;
    await print([`${count} ${things} of ${from} are in ${to}${before}; SHA-256 of both ${sha256}`]);
  };
  try {
    await report('animals', (show) => copyPets(opened, copied, show));
    for (const name of await source.recordNames(log))
      await report(name, (show) => copyRecords(name, opened, copied, show));
  } finally {
    progress.clear();
    await opened.close();
  }
}

/** Runs `migrate`. @throws Refusal; PetstoreError `storage_unusable` */
export async function migrate(settings: Settings, operands: readonly string[]): Promise<void> {
  if (operands.length > 0) throw new Refusal('`migrate` takes no operand; name the database with --storage');
  const setting = settings.get('--storage');
  const named = await readStorage(setting);
  const mend = 'name a database, such as postgres://user:password@host:5432/database';
  if (named.migrate === undefined) throw new Refusal(`${setting.from} ${named.text} needs no migration; ${mend}`);
  await print([await named.migrate()]);
}
