/** Finds the files of plugins' records beside a storage file. */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { isRecordName, parsePet } from '../engine/index.js';
import { firstLineOffset, lineChunks, nodeDisk } from '../journal/index.js';
import { parseJson } from '../json.js';
import type { Log } from '../log.js';
import { withReadOnlyFile } from './read-only.js';

/**
 * Returns the names under which plugins keep records beside a storage file, each in `FILE.NAME`, in
 * alphabetical order. Leaves out a file whose first line is not a record, and a file of pets, which
 * may be a copy of the storage file. `log` gets a warning for each of these.
 */
export async function fileRecordNames(
  path: string,
  log: Log = () => undefined,
): Promise<readonly string[]> {
  const folder = dirname(resolve(path));
  const prefix = `${basename(path)}.`;
  const names: string[] = [];
  for (const base of (await readdir(folder)).sort()) {
    const name = base.slice(prefix.length);
    if (!base.startsWith(prefix) || !isRecordName(name)) continue;

    const file = `${folder}/${base}`;
    const line = await firstLineOf(file);
    if (line === undefined) continue;

    // Only looks for an id, because a damaged file is reported when it is copied.
    if (/^\s*\{.*"id"\s*:/.test(line) && !isPet(line)) names.push(name);
    else log('warn', 'a file beside the storage file has no records of a plugin', { file });
  }
  return names;
}

/** Returns the first line of a file that is not blank and not a record of the journal. */
async function firstLineOf(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (!facts?.isFile()) return undefined;

  return withReadOnlyFile(path, async (descriptor) => {
    for await (const { text, at } of lineChunks(nodeDisk, descriptor, facts)) {
      const line = text
        .slice(firstLineOffset(text, at))
        .split('\n')
        .find((each) => !/^(\{"(commit|idempotency|import)":|\s*$)/.test(each));
      if (line !== undefined) return line;
    }
    return undefined;
  });
}

/** True if a line has the members of a pet and no others. */
function isPet(line: string): boolean {
  try {
    const value = parseJson(line);
    return value instanceof Map && value.size === Object.keys(parsePet(line)).length;
  } catch {
    return false;
  }
}
