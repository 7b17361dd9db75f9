/** The storages that options name, and the commands on whole ones: `copy`, `migrate`, `check`. */
import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  checkFile,
  copyPets,
  copyRecords,
  fileRecordNames,
  fileStorage,
  fileTarget,
  memoryStorage,
  PetstoreError,
  salvageFile,
  type CopyProgress,
  type CopyReport,
  type Log,
  type PetStorage,
  type LeftOutLine,
  type TextTarget,
} from '../index.js';
import { logTo, print, Progress, Refusal, say } from './output.js';
import { readLogFormat, type Setting, type Settings } from './settings.js';

/** A storage that is named, but not opened yet. Opening rejects with a PetstoreError `storage_…`, or a Refusal. */
export interface NamedStorage {
  /** As the operator wrote it, without what is secret. */
  readonly text: string;
  /** Opens it for a server, which waits for a database that is away; `isTrial` makes its tables where it has none. */
  readonly openToServe: (log: Log, isTrial: boolean) => Promise<PetStorage>;
  /** What can be done to one that outlasts the process. */
  readonly lasting?: {
    /** The same for what is known to be the same storage, however it is spelt. */
    readonly place: string;
    /** Whether opening it would make it. */
    readonly isNew: () => boolean;
    readonly open: (log: Log) => Promise<PetStorage>;
    /** Opens it to be copied from, or to be compared with a copy. */
    readonly openToCopy: (log: Log) => Promise<PetStorage>;
    /** Opens it to be copied to, its animals or the records of a name. */
    readonly openTarget: (records?: string) => Promise<TextTarget>;
    /** The names of what plugins keep in it; `log` hears of what only may be that. */
    readonly recordNames: (log: Log) => Promise<readonly string[]>;
  };
  /** Makes the tables of a database, or brings them up to date, and says which. */
  readonly migrate?: () => Promise<string>;
}

/** @throws Refusal for a text that names no storage; it is not repeated, for it may hold a password. */
export async function readStorage({ text, from }: Setting): Promise<NamedStorage> {
  if (text === 'memory:') return { text, openToServe: async () => memoryStorage() };
  if (text.startsWith('file:') && text !== 'file:') return fileOf(text, text.slice('file:'.length));
  if (/^postgres(ql)?:\/\//.test(text)) return databaseOf(text, from);
  throw refusal(from, 'a URL such as postgres://user:password@host:5432/name');
}

function refusal(from: string, wantedUrl: string): Refusal {
  return new Refusal(`${from} must be file:PATH, such as file:data/pets.jsonl, memory:, or ${wantedUrl}`);
}

function fileOf(text: string, path: string): NamedStorage {
  const open = (log: Log): Promise<PetStorage> => fileStorage(path, { log });
  const lasting = {
    place: existsSync(path) ? realpathSync(path) : resolve(path),
    isNew: () => !existsSync(path),
    open,
    openToCopy: open,
    openTarget: (records?: string) => fileTarget(path, records),
    recordNames: (log: Log) => fileRecordNames(path, log),
  };
  return { text, openToServe: open, lasting };
}

async function databaseOf(url: string, from: string): Promise<NamedStorage> {
  // Imported only here: nobody else pays for it.
  const postgres = await import('../postgres/index.js');
  const wantedUrl = postgres.wantedUrl(url);
  if (wantedUrl !== undefined) throw refusal(from, wantedUrl);
  const { protocol, username, host, pathname } = new URL(url);
  // A password may stand before the host or among the parameters.
  const text = `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
  const migrated = (opening: Promise<PetStorage>): Promise<PetStorage> =>
    opening.catch((error: unknown) => {
      if (!(error instanceof postgres.MissingTables)) throw error;
      const mend = 'make them with `petstore migrate --storage URL`';
      throw new Refusal(`${from} ${text} has no tables of this petstore; ${mend}`);
    });
  const migrate = async (): Promise<string> => {
    const { from: before, to } = await postgres.migratePostgres(url);
    if (before === to) return `${text} is up to date: version ${to}`;
    return `${text} has the tables of the petstore: version ${to}, before ${before}`;
  };
  const open = (log: Log): Promise<PetStorage> => migrated(postgres.postgresStorage(url, { log }));
  const openToServe = (log: Log, isTrial: boolean): Promise<PetStorage> =>
    postgres.untilThere(async () => {
      if (isTrial) await migrate();
      return open(log);
    }, log);
  const lasting = {
    place: url,
    isNew: () => false,
    open,
    openToCopy: (log: Log) => migrated(postgres.postgresSource(url, { log })),
    openTarget: (records?: string) => postgres.postgresTarget(url, records),
    recordNames: () => postgres.postgresRecordNames(url),
  };
  return { text, openToServe, lasting, migrate };
}

/**
 * Runs `copy --from STORAGE --to STORAGE`: the animals, then what plugins keep beside them. Cut off, it goes on where
 * it was when it is run again.
 * @throws Refusal for what was named; PetstoreError `storage_…` for what is in there.
 */
export async function copy(settings: Settings, operands: readonly string[]): Promise<void> {
  const [fromSetting, toSetting] = [settings.find('from'), settings.find('to')];
  if (operands.length > 0 || fromSetting === undefined || toSetting === undefined)
    throw new Refusal('`copy` needs --from STORAGE and --to STORAGE, such as file:data/pets.jsonl');
  const { text: from, lasting: source } = await readStorage(fromSetting);
  const { text: to, lasting: target } = await readStorage(toSetting);
  if (target === undefined) throw new Refusal(`--to ${to} would forget what is copied; use file:PATH or a database`);
  if (source === undefined) throw new Refusal(`--from ${from} holds nothing to copy; use file:PATH or a database`);
  if (source.place === target.place)
    throw new Refusal(`--from ${from} and --to ${to} are the same; name another to copy to`);
  if (source.isNew()) throw new Refusal(`--from ${from} is not there; name a storage that is`);
  const progress = new Progress();
  const log = logTo(process.stderr, readLogFormat(settings, process.stderr));
  const opened = await source.openToCopy(log);
  const copied = { open: () => target.openToCopy(log), openTarget: target.openTarget };
  const report = async (things: string, copying: (show: CopyProgress) => Promise<CopyReport>): Promise<void> => {
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

/** Runs `migrate`. @throws Refusal for a storage that has no tables; PetstoreError `storage_unusable`. */
export async function migrate(settings: Settings, operands: readonly string[]): Promise<void> {
  if (operands.length > 0) throw new Refusal('`migrate` takes no operand; name the database with --storage');
  const setting = settings.get('storage');
  const storage = await readStorage(setting);
  const mend = 'name a database, such as postgres://user:password@host:5432/database';
  if (storage.migrate === undefined) throw new Refusal(`${setting.from} ${storage.text} needs no migration; ${mend}`);
  await print([await storage.migrate()]);
}

/**
 * Runs `check FILE [--salvage OUT]`; the exit code is 3 where a server would refuse to start on the file.
 * @throws Refusal for a file that cannot be read.
 */
export async function check(settings: Settings, [path, ...others]: readonly string[]): Promise<void> {
  if (path === undefined || others.length > 0) throw new Refusal('`check` needs one FILE, such as data/pets.jsonl');
  const outPath = settings.find('salvage')?.text;
  try {
    await (outPath === undefined ? tell(path) : salvage(path, outPath));
  } catch (error) {
    // As any file that was named and cannot be used: the mistake is on the command line.
    throw error instanceof PetstoreError ? new Refusal(error.message) : error;
  }
}

async function tell(path: string): Promise<void> {
  const report = await checkFile(path);
  const { verdict, problem, tornBytes, animals, byStatus, idempotencyKeys, commits, bytes, committedBytes } = report;
  const place = problem && `line ${problem.line}, byte ${problem.byte}: ${problem.what}`;
  const tail = `a start copies these ${tornBytes} bytes to ${path}.torn-TIME and cuts them off`;
  const verdicts = {
    sound: 'is sound',
    torn: `has a torn tail: ${place}; ${tail}`,
    damaged: `is damaged: ${place}; counted is what precedes it`,
  };
  const { none, ...statuses } = byStatus;
  const each = Object.entries({ ...statuses, 'without a status': none }).map(([name, count]) => `${count} ${name}`);
  await print([
    `${path} ${verdicts[verdict]}`,
    `  animals  ${animals} (${each.join(', ')})`,
    ...(idempotencyKeys === 0 ? [] : [`  keys     ${idempotencyKeys} idempotency keys`]),
    `  commits  ${commits}`,
    `  bytes    ${bytes} (${committedBytes} committed)`,
  ]);
  if (verdict !== 'damaged') return;
  const mend = `put a backup in its place, or save what is sound by \`check ${path} --salvage OUT\``;
  say(`${path} ${place}; a start refuses this file: ${mend}`);
  process.exitCode = 3;
}

/** Whatever could be saved is saved, and what could not is said, in ranges. */
async function salvage(path: string, outPath: string): Promise<void> {
  const { animals, missing, leftOut } = await salvageFile(path, outPath);
  const ids = missing.map(({ from, to }) => range(from, to));
  await print([
    `${animals} animals of ${path} are sound; they are in ${outPath}`,
    ...rangesOf(leftOut).map((line) => `  left out  ${line}`),
    ...(ids.length === 0 ? [] : [`  missing   ids ${ids.join(', ')}`]),
  ]);
}

/** What was left out: lines that follow each other for the same reason together. */
function rangesOf(leftOut: readonly LeftOutLine[]): readonly string[] {
  const ranges: { readonly first: LeftOutLine; last: LeftOutLine }[] = [];
  for (const entry of leftOut) {
    const before = ranges.at(-1);
    // A batch that was saved between two animals has two lines at least, and comes after the commit of the first one's.
    const most = entry.animal === undefined ? 1 : 3;
    const goesOn = before?.last.what === entry.what && entry.line - before.last.line <= most;
    if (goesOn) before.last = entry;
    else ranges.push({ first: entry, last: entry });
  }
  return ranges.map(({ first, last }) => {
    const plural = first === last ? '' : 's';
    const animals = first.animal === undefined ? '' : `animal${plural} ${range(first.animal, last.animal)}, `;
    return `line${plural} ${range(first.line, last.line)}: ${animals}${first.what}`;
  });
}

function range<Place>(from: Place, to: Place): string {
  return from === to ? `${from}` : `${from} to ${to}`;
}
