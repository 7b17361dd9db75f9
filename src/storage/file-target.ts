/** Owns a storage file as the source of names and the target of a copy: texts with their ids, a commit for each batch. Keeps none in memory. */
import { constants } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { messageOf, PetstoreError } from '../errors.js';
import { parseJson, type JsonValue } from '../json.js';
import type { Log } from '../log.js';
import { parseDraft } from '../pet.js';
import { anyRecords } from './any-records.js';
import { readCommitLine } from './commit-line.js';
import type { TextTarget } from './copy.js';
import { nodeDisk } from './disk.js';
import { isBlank, lineEnd } from './lines.js';
import { lockingOn } from './lock.js';
import { openJournal } from './open-journal.js';
import { petLines, recordLines, type TakePet } from './pet-lines.js';
import { readPieces } from './pieces.js';
import { isRecordName } from './record-set.js';

/**
 * Opens the file at a path, making it where missing, to copy animals to its end, or the file beside it for the records of
 * a name. @throws as `fileStorage`
 */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  let lastId = 0n;
  const options = { disk: nodeDisk, locking: lockingOn(process.platform), log: () => undefined, clock: Date.now };
  const keep: TakePet = (id) => (lastId = BigInt(id));
  const whole = records === undefined ? resolve(path) : `${resolve(path)}.${records}`;
  const journal = await openJournal(whole, options, records === undefined ? petLines(keep) : recordLines(anyRecords)(keep));
  return {
    adopt: async (texts) => {
      for (const { id } of texts) {
        if (id <= lastId) throw new PetstoreError('storage_unusable', `${whole} has an id of ${lastId}, which ${id} cannot follow`);
        lastId = id;
      }
      await journal.append(texts.map(({ json }) => json));
    },
    close: () => journal.close(),
  };
}

/**
 * The names of the records that plugins keep beside the file at a path: those of files named so whose first line,
 * commits aside, is a record, but not one with all that an animal has and no more, as it is in a copy that somebody made of the file itself.
 * @param log Hears of every other file that is named so and holds something.
 */
export async function fileRecordNames(path: string, log: Log = () => undefined): Promise<readonly string[]> {
  const [folder, prefix] = [dirname(resolve(path)), `${basename(path)}.`];
  const names = (await readdir(folder)).filter((file) => file.startsWith(prefix)).map((file) => file.slice(prefix.length));
  const found: string[] = [];
  for (const name of names.filter(isRecordName).sort()) {
    const file = `${folder}/${prefix}${name}`;
    const line = await firstLineOf(file);
    const what = line === undefined ? undefined : noRecord(line);
    if (what !== undefined) log('warn', 'a file beside the storage file is not taken for the records of a plugin', { file, what });
    else if (line !== undefined) found.push(name);
  }
  return found;
}

/** The first line that is neither blank nor a commit, which may stand first, of nothing; undefined for what is no file, or has none. */
async function firstLineOf(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (!facts?.isFile()) return undefined;
  try {
    const descriptor = await nodeDisk.open(path, constants.O_RDONLY, 0);
    try {
      return await firstLineIn(descriptor, facts.size);
    } finally {
      await nodeDisk.close(descriptor);
    }
  } catch (error) {
    throw new PetstoreError('storage_unusable', `${path} cannot be read (${messageOf(error)})`, { cause: error });
  }
}

async function firstLineIn(descriptor: number, size: number): Promise<string | undefined> {
  let line: string | undefined;
  await readPieces({ disk: nodeDisk, descriptor, from: 0, to: size }, (bytes, _at, last) => {
    for (let from = 0; from < bytes.length; ) {
      const to = lineEnd(bytes, from, last);
      if (to === undefined) return from;
      const isCommit = to < bytes.length && readCommitLine(bytes, from, to) !== undefined;
      if (!isCommit && !isBlank(bytes, from, to)) {
        line = bytes.toString('latin1', from, to);
        return undefined;
      }
      from = to + 1;
    }
    return bytes.length;
  });
  return line;
}

/** Why a line is no record of a plugin; undefined for one. */
function noRecord(line: string): string | undefined {
  try {
    anyRecords.parse(line);
  } catch (error) {
    return `its first line is no record: ${messageOf(error)}`;
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
