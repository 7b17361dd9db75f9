/** Owns a storage file as the source of names and the target of a copy: texts with their ids, a commit for each batch. Keeps none in memory. */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { messageOf, PetstoreError } from '../errors.js';
import { parsePet } from '../pet.js';
import { anyRecords, idOfText } from './any-records.js';
import type { TextTarget } from './copy.js';
import { nodeDisk } from './disk.js';
import { lockingOn } from './lock.js';
import { openJournal } from './open-journal.js';
import { petLines, recordLines, type TakePet } from './pet-lines.js';
import { isRecordName } from './record-set.js';

/**
 * Opens the file at a path, making it where missing, to copy animals to its end, or the file beside it for the records of
 * a name. @throws as `fileStorage`
 */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  let lastId = 0n;
  const options = { disk: nodeDisk, locking: lockingOn(process.platform), log: () => undefined, clock: Date.now };
  const keep: TakePet = (id) => (lastId = id);
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
 * The names of the records that plugins keep beside the file at a path: those of files named so whose first line is a
 * record and no animal, as it is in a copy that somebody made of the file itself.
 */
export async function fileRecordNames(path: string): Promise<readonly string[]> {
  const [folder, prefix] = [dirname(resolve(path)), `${basename(path)}.`];
  const names = (await readdir(folder)).filter((file) => file.startsWith(prefix)).map((file) => file.slice(prefix.length));
  const found: string[] = [];
  for (const name of names.sort()) if (isRecordName(name) && isRecord(await firstLineOf(`${folder}/${prefix}${name}`))) found.push(name);
  return found;
}

/** Empty for what is no file. */
async function firstLineOf(path: string): Promise<string> {
  if (!(await stat(path).catch(() => undefined))?.isFile()) return '';
  const input = createReadStream(path, { encoding: 'latin1', end: 2 ** 20 });
  try {
    for await (const line of createInterface({ input })) return line;
    return '';
  } catch (error) {
    throw new PetstoreError('storage_unusable', `${path} cannot be read (${messageOf(error)})`, { cause: error });
  } finally {
    input.destroy();
  }
}

function isRecord(line: string): boolean {
  try {
    idOfText(line);
  } catch {
    return false;
  }
  try {
    parsePet(line);
    return false;
  } catch {
    return true;
  }
}
