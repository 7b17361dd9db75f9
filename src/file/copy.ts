/**
 * Copies animals, and what plugins keep beside them, from any storage to any other, ids kept: what is there already is
 * compared, what is missing is added, and in the end all of it is read again.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { nodeDisk, readLine, wholeLines, withFile } from '../journal/index.js';
import { parseJson, type JsonValue } from '../json.js';
import { isRecordName, textsOf } from '../memory/index.js';
import { parseDraft } from '../pet.js';
import type { PetStorage, StoredText, TextPage, Texts, TextTarget } from '../storage.js';
import { anyRecords, idOfText } from './record-lines.js';

/** A storage that can be copied to, in both of its roles; never in both at once. */
export interface CopyTarget {
  /** As a storage, to be read and compared. */
  readonly open: () => Promise<PetStorage>;
  /** To be added to: for its animals, or for the records of a name. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;
}

/** What was copied. */
export interface CopyReport {
  /** How many animals, or records, both have now. */
  readonly count: number;
  /** How many of them were there before. */
  readonly present: number;
  /** The SHA-256 of every text, each followed by a newline, in hexadecimal digits. */
  readonly sha256: string;
}

/** Is told how many animals, or records, a step has come to. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', count: number) => void;

/** What can be walked through. */
type Readable = Pick<Texts<never>, 'list'>;

/**
 * Copies what `to` lacks of the animals of `from`. It may be begun again after it was cut off. Nobody else may add to
 * `to` meanwhile; what is added to `from` may be left out. Idempotency keys are not copied.
 * @throws PetstoreError `storage_unusable` where `to` holds an animal that `from` has not, `storage_damaged` where in
 * the end they are not the same, and whatever opening, reading and writing them throws.
 */
export async function copyPets(from: PetStorage, to: CopyTarget, progress?: CopyProgress): Promise<CopyReport> {
  return copyTexts(undefined, from, to, progress);
}

/** The same for what a plugin keeps under a name, as `PetStorage.records` has it; to be asked for once of a `from`. */
export async function copyRecords(
  name: string,
  from: PetStorage,
  to: CopyTarget,
  progress?: CopyProgress,
): Promise<CopyReport> {
  return copyTexts(name, from, to, progress);
}

async function copyTexts(
  name: string | undefined,
  from: PetStorage,
  to: CopyTarget,
  progress: CopyProgress = () => undefined,
): Promise<CopyReport> {
  const ours = await textsIn(from, name);
  // What cannot be read is told before anything is made.
  await ours.list({ limit: 1 });
  const source = new Tally();
  // Begun again, the copy goes on in step: its pages, and so its commits, are those of a copy that was not cut off.
  const pace = newPace();
  await reading(to, name, async (theirs) => {
    for await (const texts of commonOf(ours, theirs, pace, name)) {
      source.add(texts);
      progress('comparing', source.count);
    }
  });

  const present = source.count;
  const target = await to.openTarget(name);
  try {
    for await (const texts of pagesOf(ours, source.lastId, pace)) {
      await target.adopt(texts);
      source.add(texts);
      progress('copying', source.count);
    }
  } finally {
    await target.close();
  }

  const copy = new Tally();
  await reading(to, name, async (theirs) => {
    for await (const texts of pagesOf(theirs)) {
      copy.add(texts);
      progress('checking', copy.count);
    }
  });
  const [sha256, copied] = [source.digest(), copy.digest()];
  if (copy.count !== source.count || copied !== sha256) {
    throw new PetstoreError(
      'storage_damaged',
      `the copy is not the same: ${copy.count} of SHA-256 ${copied}, where ${source.count} of ${sha256} were read`,
    );
  }
  return { count: source.count, present, sha256 };
}

/** A storage's animals, or its records of a name. */
async function textsIn(storage: PetStorage, name: string | undefined): Promise<Readable> {
  if (name === undefined) return textsOf(storage);
  const records = storage.records?.(name, anyRecords);
  if (records === undefined) throw new PetstoreError('storage_unusable', 'this storage keeps nothing but animals');
  await records.opened;
  return records;
}

async function reading(
  to: CopyTarget,
  name: string | undefined,
  use: (texts: Readable) => Promise<void>,
): Promise<void> {
  const storage = await to.open();
  try {
    await use(await textsIn(storage, name));
  } finally {
    await storage.close();
  }
}

/** Counts what passes, and takes its digest. */
class Tally {
  count = 0;
  lastId = 0n;
  readonly #hash = createHash('sha256');

  add(texts: readonly StoredText[]): void {
    for (const { json } of texts) this.#hash.update(`${json}\n`, 'latin1');
    this.count += texts.length;
    this.lastId = texts.at(-1)?.id ?? this.lastId;
  }

  /** To be asked for once. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** A page at a time what both have, which must be the beginning of `from` and all of `to`. */
async function* commonOf(from: Readable, to: Readable, pace: Pace, name = ''): AsyncGenerator<readonly StoredText[]> {
  const theirs = pagesOf(from);
  for await (const ours of pagesOf(to, 0n, pace)) {
    const { value: wanted = [] } = await theirs.next();
    const other = ours.find(({ json }, index) => json !== wanted[index]?.json);
    if (other !== undefined) {
      const one = name === '' ? 'animal' : `record of ${name}`;
      throw new PetstoreError(
        'storage_unusable',
        `the ${one} of id ${other.id} is not the one that is to be copied; copy to an empty storage`,
      );
    }
    yield ours;
  }
}

/** How many texts share a commit; fewer where they are long: about so many bytes are held, and waited for, at once. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;

/** How long the next page is. */
interface Pace {
  limit: number;
}

/** The first page cannot know how long the texts are. */
const newPace = (): Pace => ({ limit: 16 });

/** All texts above an id, a page at a time: the same texts make the same pages, whatever they are kept in. */
async function* pagesOf(
  texts: Readable,
  after = 0n,
  pace = newPace(),
): AsyncGenerator<readonly StoredText[], undefined> {
  for (let last: bigint | undefined = after; last !== undefined; ) {
    const page: TextPage = await texts.list({ limit: pace.limit, after: last });
    const bytes = page.texts.reduce((sum, json) => sum + json.length, 0);
    if (bytes > 0) pace.limit = Math.max(1, Math.min(pageSize, Math.floor((pageBytes * page.texts.length) / bytes)));
    if (page.texts.length > 0) yield page.texts.map((json) => ({ id: idOfText(json), json }));
    last = page.next;
  }
  return undefined;
}

/**
 * The names of the records that plugins keep beside the file at a path: those of files named so whose first line,
 * commits aside, is a record, but not one with all that an animal has and no more, as it is in a copy that somebody
 * made of the file itself.
 * @param log Is told of every other file that is named so and holds something.
 */
export async function fileRecordNames(path: string, log: Log = () => undefined): Promise<readonly string[]> {
  const [folder, prefix] = [dirname(resolve(path)), `${basename(path)}.`];
  const names = (await readdir(folder))
    .filter((file) => file.startsWith(prefix))
    .map((file) => file.slice(prefix.length));
  const found: string[] = [];
  for (const name of names.filter(isRecordName).sort()) {
    const file = `${folder}/${prefix}${name}`;
    const line = await firstLineOf(file);
    const what = line === undefined ? undefined : whyNoRecord(line);
    if (what !== undefined)
      log('warn', 'a file beside the storage file is not taken for the records of a plugin', { file, what });
    else if (line !== undefined) found.push(name);
  }
  return found;
}

/** The first line of a file that is neither blank nor a commit; undefined where there is none. */
async function firstLineOf(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (!facts?.isFile()) return undefined;
  try {
    return await withFile(nodeDisk, path, constants.O_RDONLY, async (descriptor) => {
      for await (const { text } of wholeLines(nodeDisk, descriptor, facts.size)) {
        for (let next = 0; next < text.length; ) {
          const { textFrom, textTo, end, commit } = readLine(text, next);
          const line = text.slice(textFrom, textTo);
          if (commit === undefined && line.trim() !== '') return line;
          next = end;
        }
      }
      return undefined;
    });
  } catch (thrown) {
    throw new PetstoreError('storage_unusable', `${path} cannot be read (${reasonOf(thrown)})`, { cause: thrown });
  }
}

/** Why a line is no record of a plugin; undefined for one. */
function whyNoRecord(line: string): string | undefined {
  try {
    anyRecords.parse(line);
  } catch (error) {
    return `its first line is no record: ${reasonOf(error)}`;
  }
  return isWholePet(parseJson(line)) ? 'its first line is an animal' : undefined;
}

/** Whether a value says nothing beside what an animal says. */
function isWholePet(value: JsonValue): boolean {
  try {
    return value instanceof Map && value.size === (parseDraft(value).status === undefined ? 3 : 4);
  } catch {
    return false;
  }
}
