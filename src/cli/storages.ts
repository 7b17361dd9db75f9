/** The storages that options name, and the commands `copy` and `migrate`. */
import { existsSync, realpathSync } from 'node:fs';
import {
  copyRecords,
  fileImport,
  fileRecordNames,
  fileStorage,
  fileTarget,
  type CopyProgress,
  type ImportTarget,
  type Log,
  type PetDraft,
  type PetStorage,
  type TextTarget,
} from '../index.js';
import { countOf, logTo, print, Refusal, showProgress } from './output.js';
import type { Setting, Settings } from './settings.js';

/** A storage that lasts. */
export interface NamedStorage {
  /** As the operator wrote it, without a password. */
  readonly text: string;
  /**
   * Two names of one file have the same, two URLs of one database may not; empty for a file that is
   * not there yet.
   */
  readonly place: string;
  /**
   * To serve, it waits for a database that cannot be reached; for `--dev` it brings its tables up
   * to date too.
   */
  readonly open: (use: 'serve' | 'dev' | 'copy', log: Log) => Promise<PetStorage>;
  /** Opens it to import the source of a digest. */
  readonly openImport: (source: string, log: Log) => Promise<ImportTarget>;
  /**
   * Adds animals where there were none yet, in one step (F12); false where there are. Nobody has it
   * open here.
   */
  readonly seed: (drafts: readonly PetDraft[], source: string, log: Log) => Promise<boolean>;
  readonly openTarget: (records?: string) => Promise<TextTarget>;
  readonly recordNames: (log: Log) => Promise<readonly string[]>;
  /** Makes the tables of a database, or brings them up to date; answers which. */
  readonly migrate?: () => Promise<string>;
}

/**
 * Undefined for `memory:`. @throws Refusal, which does not repeat the text: it may hold a password.
 */
export async function readStorage({ text, from }: Setting): Promise<NamedStorage | undefined> {
  if (text === 'memory:') return undefined;
  return text.startsWith('file:') && text !== 'file:' ? fileOf(text) : databaseOf(text, from);
}

function fileOf(text: string): NamedStorage {
  const path = text.slice('file:'.length);
  return {
    text,
    place: existsSync(path) ? realpathSync(path) : '',
    open: (_use, log) => fileStorage(path, { log }),
    openImport: async (source, log) => {
      let tell = log;
      const target = await fileImport(path, source, { log: (...line) => tell(...line) });
      // Once it is open, a failure is told by the import itself.
      tell = () => undefined;
      return target;
    },
    seed: async (drafts, source, log) => {
      const target = await fileImport(path, source, { log });
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
  const postgres = await import('../postgres/index.js');
  const wantedUrl = postgres.wantedUrl(url);
  if (wantedUrl !== undefined)
    throw new Refusal(
      `${from} must be file:PATH, such as file:data/pets.jsonl, memory:, or ${wantedUrl}`,
    );
  const { protocol, username, host, pathname } = new URL(url);
  // Leaves out what may hold a password: the user information and the parameters.
  const text = `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
  const migrate = async () => {
    const { from: before, to } = await postgres.migratePostgres(url);
    if (before === to) return `${text} is up to date: version ${to}`;
    return `${text} has the tables of the petstore: version ${to}, before ${before}`;
  };
  const refuseMissing = (error: unknown): never => {
    if (!(error instanceof postgres.MissingTables)) throw error;
    const mend = 'make them with `petstore migrate --storage URL`';
    throw new Refusal(`${from} ${text} has no tables of this petstore; ${mend}`);
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
      use === 'copy' ? open(use, log) : postgres.untilThere(() => open(use, log), log),
    openImport: (source, log) => postgres.postgresImport(url, source, log).catch(refuseMissing),
    seed: (drafts, _source, log) => postgres.seedPostgres(url, drafts, log),
    openTarget: (records) => postgres.postgresTarget(url, records),
    recordNames: () => postgres.postgresRecordNames(url),
    migrate,
  };
}

/** Runs `copy`: the animals, then what plugins keep. @throws Refusal; PetstoreError `storage_…` */
export async function copy(settings: Settings, operands: readonly string[]): Promise<void> {
  const [from, to] = [settings.find('--from'), settings.find('--to')];
  const source = from && (await readStorage(from));
  const target = to && (await readStorage(to));
  if (operands.length > 0 || source === undefined || target === undefined)
    throw new Refusal(
      '`copy` needs --from STORAGE and --to STORAGE, each file:PATH or a database, not memory:',
    );
  if (source.place === '')
    throw new Refusal(`--from ${source.text} is not there; name a storage that is`);
  if (source.place === target.place)
    throw new Refusal(
      `--from ${source.text} and --to ${target.text} are the same; name another to copy to`,
    );
  const log = logTo(process.stderr, process.stderr.isTTY ? 'text' : 'json');
  const opened = await source.open('copy', log);
  const copied = { open: () => target.open('copy', log), openTarget: target.openTarget };
  const copyAll = async (name?: string) => {
    const words = (count: number) =>
      name === undefined ? countOf(count, 'animal') : `${count} ${name}`;
    const show: CopyProgress = (what, count) => showProgress(`${what} ${words(count)}`);
    const { count, present, sha256 } = await copyRecords(name, opened, copied, show);
    showProgress('');
    const before = present === 0 ? '' : `, ${present} of them before`;
    await print([
      `${words(count)} of ${source.text} copied to ${target.text}${before}; SHA-256 of both ${sha256}`,
    ]);
  };
  try {
    await copyAll();
    for (const name of await source.recordNames(log)) await copyAll(name);
  } finally {
    showProgress('');
    await opened.close();
  }
}

/** Runs `migrate`. @throws Refusal; PetstoreError `storage_unusable` */
export async function migrate(settings: Settings, operands: readonly string[]): Promise<void> {
  if (operands.length > 0)
    throw new Refusal('`migrate` takes no operand; name the database with --storage');
  const setting = settings.get('--storage');
  const named = await readStorage(setting);
  const mend = 'name a database, such as postgres://user:password@host:5432/database';
  // No database's text, which may hold a password.
  if (named?.migrate === undefined)
    throw new Refusal(`${setting.from} ${setting.text} needs no migration; ${mend}`);
  await print([await named.migrate()]);
}
