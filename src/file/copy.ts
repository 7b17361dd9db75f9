/** Copies animals, and what plugins keep, from any storage to any other, ids kept: compares, adds, and reads again. */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { nodeDisk, readLine, wholeLines } from '../journal/index.js';
import { parseJson } from '../json.js';
import { isRecordName, textsOf } from '../memory/index.js';
import { parsePet } from '../pet.js';
import type { PetStorage, StoredText, TextPage, Texts, TextTarget } from '../storage.js';
import { withFileToRead } from './check.js';
import { anyRecords, idOfText } from './record-lines.js';

/** A storage that can be copied to, open in one way at a time. */
export interface CopyTarget {
  /** Opens it to be compared. */
  readonly open: () => Promise<PetStorage>;
  /** Opens its animals, or the records of a name, to be added to. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;
}

/** What was copied. */
export interface CopyReport {
  /** How many animals, or records, both have now. */
  readonly count: number;
  /** How many of them were there before. */
  readonly present: number;
  /** The SHA-256 of all texts, each with a newline, in hexadecimal. */
  readonly sha256: string;
}

/** Is told how many animals, or records, a step has come to. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', count: number) => void;

/**
 * Copies what `to` lacks of the animals of `from`, also after it was cut off. Nobody else may add to `to` meanwhile;
 * what is added to `from` may be left out. Idempotency keys are not copied.
 * @throws PetstoreError `storage_unusable` where `to` holds an animal that `from` has not, `storage_damaged` where in
 * the end they differ, and whatever opening, reading and writing them throws.
 */
export async function copyPets(from: PetStorage, to: CopyTarget, progress?: CopyProgress): Promise<CopyReport> {
  return copyRecords(undefined, from, to, progress);
}

/** The same for a plugin's records by their name, or for animals. An open `from` hands out each name once. */
export async function copyRecords(
  name: string | undefined,
  from: PetStorage,
  to: CopyTarget,
  progress?: CopyProgress,
): Promise<CopyReport> {
  const source = new Tally();
  const pages = pagesOf(await textsIn(from, name));
  // What was read of `from` and not yet found in `to`; read before `to` is made, as `from` may not be readable.
  let { value: ahead = [] } = await pages.next();
  for await (const texts of pagesIn(to, name)) {
    // Each storage may end a page of long texts elsewhere.
    while (ahead.length < texts.length) {
      const { value } = await pages.next();
      if (!value) break;
      ahead = [...ahead, ...value];
    }
    const other = texts.find(({ json }, index) => json !== ahead[index]?.json);
    if (other) {
      const one = `the ${name === undefined ? 'animal' : `record of ${name}`} of id ${other.id}`;
      const mend = 'copy to an empty storage';
      throw new PetstoreError('storage_unusable', `${one} is not the one that is to be copied; ${mend}`);
    }
    ahead = ahead.slice(texts.length);
    source.add(texts);
    progress?.('comparing', source.count);
  }

  const present = source.count;
  const target = await to.openTarget(name);
  const adopt = async (texts: readonly StoredText[]) => {
    await target.adopt(texts);
    source.add(texts);
    progress?.('copying', source.count);
  };
  try {
    if (ahead.length > 0) await adopt(ahead);
    for await (const texts of pages) await adopt(texts);
  } finally {
    await target.close();
  }

  const copy = new Tally();
  for await (const texts of pagesIn(to, name)) {
    copy.add(texts);
    progress?.('checking', copy.count);
  }
  const { count } = source;
  const [sha256, copied] = [source.hash.digest('hex'), copy.hash.digest('hex')];
  if (copy.count === count && copied === sha256) return { count, present, sha256 };
  const both = `${copy.count} of SHA-256 ${copied}, where ${count} of ${sha256} were read`;
  throw new PetstoreError('storage_damaged', `the copy is not the same: ${both}`);
}

type Listed = Pick<Texts<never>, 'list'>;

async function textsIn(storage: PetStorage, name: string | undefined): Promise<Listed> {
  if (name === undefined) return textsOf(storage);
  const records = storage.records?.(name, anyRecords);
  if (!records) throw new PetstoreError('storage_unusable', 'this storage keeps nothing but animals');
  await records.opened;
  return records;
}

class Tally {
  count = 0;
  readonly hash = createHash('sha256');

  add(texts: readonly StoredText[]): void {
    for (const { json } of texts) this.hash.update(`${json}\n`, 'latin1');
    this.count += texts.length;
  }
}

/** How many texts, and about how many bytes of them, share a commit. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;

/** All texts, a page at a time: the same texts make the same pages, and so the same commits. */
async function* pagesOf(texts: Listed): AsyncGenerator<readonly StoredText[], undefined> {
  // How long the texts are is not known yet.
  let limit = 16;
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    const page: TextPage = await texts.list({ limit, after });
    const bytes = page.texts.reduce((sum, json) => sum + json.length, 0);
    if (bytes > 0) limit = Math.max(1, Math.min(pageSize, Math.floor((pageBytes * page.texts.length) / bytes)));
    if (page.texts.length > 0) yield page.texts.map((json) => ({ id: idOfText(json), json }));
    after = page.next;
  }
  return undefined;
}

async function* pagesIn(to: CopyTarget, name: string | undefined) {
  const storage = await to.open();
  try {
    yield* pagesOf(await textsIn(storage, name));
  } finally {
    await storage.close();
  }
}

/**
 * The names under which plugins keep records beside a file, each in `FILE.NAME`. A file so named does not count where
 * its first line, commits aside, is no record, or is an animal, as in a copy of the storage file.
 * @param log Is told of other files named so that hold something.
 */
export async function fileRecordNames(path: string, log: Log = () => undefined): Promise<readonly string[]> {
  const [folder, prefix] = [dirname(resolve(path)), `${basename(path)}.`];
  const files = (await readdir(folder)).filter((file) => file.startsWith(prefix));
  const names = files.map((file) => file.slice(prefix.length)).filter(isRecordName);
  const found: string[] = [];
  for (const name of names.sort()) {
    const file = `${folder}/${prefix}${name}`;
    const line = await firstLineOf(file);
    if (line === undefined) continue;
    const what = whyNoRecord(line);
    if (what === undefined) found.push(name);
    else log('warn', 'a file beside the storage file is not taken for the records of a plugin', { file, what });
  }
  return found;
}

/** The first line of a file, be it damaged, that is neither blank nor a commit. */
async function firstLineOf(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (!facts?.isFile()) return undefined;
  return withFileToRead(path, async (descriptor) => {
    for await (const { text } of wholeLines(nodeDisk, descriptor, facts)) {
      for (let next = 0; next < text.length; ) {
        const { textFrom, textTo, end, commit } = readLine(text, next);
        const line = text.slice(textFrom, textTo);
        if (commit === undefined && line.trim() !== '') return line;
        next = end;
      }
    }
    return undefined;
  });
}

function whyNoRecord(line: string): string | undefined {
  try {
    anyRecords.parse(line);
  } catch (error) {
    return `its first line is no record: ${reasonOf(error)}`;
  }
  try {
    const value = parseJson(line);
    const isMore = value instanceof Map && value.size > Object.keys(parsePet(line)).length;
    return isMore ? undefined : 'its first line is an animal';
  } catch {
    return undefined;
  }
}
