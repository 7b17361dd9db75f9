/** The `import` command: adds the animals of a file of JSON Lines to a storage: all or, where a line is bad, none. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { constants as system, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseDraft, parseJson, PetstoreError, reasonOf, type PetDraft, type PetStorage } from '../index.js';
import { logTo, print, Progress, Refusal, say } from './output.js';
import { readLogFormat, readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals: enough to share a sync of the disk, fewer than a storage refuses to let wait. */
const pieceBytes = 2 ** 16;
/** A longer line is refused: with those of its piece, a storage must take it in while nothing else waits. */
const maxLineBytes = 2 ** 22;

/** Most members that are named as ignored. */
const maxIgnored = 10;

/** An open file of the creation shape, one animal a line. */
interface DraftFile {
  /** What messages call it. */
  readonly name: string;
  readonly handle: FileHandle;
  /** How many bytes of it are read. */
  readonly bytes: number;
  /** How many of its first lines are skipped. */
  readonly after: number;
  /** Members that no animal has, as they are found. */
  readonly ignored: Set<string>;
}

/** The animals whose lines end in one piece of a file. */
interface Drafts {
  readonly drafts: readonly { readonly draft: PetDraft; readonly line: number }[];
  /** How much of the file is read, from 0 to 1. */
  readonly done: number;
}

/**
 * Runs `import FILE [--after LINE]`: reads the file twice, first to check every line, then to add every animal.
 * Interrupted, it says how to go on.
 * @throws Refusal for what is wrong with the file; PetstoreError `storage_…` for the storage.
 */
export async function importAnimals([path, ...others]: readonly string[], settings: Settings): Promise<number> {
  if (path === undefined || others.length > 0)
    throw new Refusal('`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input');
  const setting = settings.get('storage');
  const target = await readStorage(setting);
  if (target.lasting === undefined)
    throw new Refusal(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);
  const after = readWholeNumber(settings.get('after'), 0, Number.MAX_SAFE_INTEGER);
  const format = readLogFormat(settings, process.stderr);
  const progress = new Progress();
  const file = { ...(path === '-' ? await keepInput() : await openToRead(path)), after, ignored: new Set<string>() };
  try {
    let total = 0;
    for await (const { drafts, done } of piecesOf(file)) progress.show('checking', done, (total += drafts.length));
    let log = logTo(process.stderr, format);
    const storage = await target.open((...said) => log(...said));
    // What it says later, such as a full disk, is said once, with the count.
    log = () => undefined;
    let code: number;
    try {
      code = await addAll(file, total, storage, progress);
    } finally {
      await storage.close();
    }
    progress.clear();
    if (code !== 0) return code;
    if (file.ignored.size > 0) say(ignoredOf(file));
    await print([`${total} animals added to ${target.text}`], `${total} animals were added to ${target.text}`);
    return 0;
  } finally {
    progress.clear();
    await file.handle.close();
  }
}

/**
 * All animals of a file, for a storage that begins with them.
 * @throws Refusal for what is wrong with the file.
 */
export async function readDrafts(path: string): Promise<readonly PetDraft[]> {
  const file = { ...(await openToRead(path)), after: 0, ignored: new Set<string>() };
  try {
    const all: PetDraft[] = [];
    for await (const { drafts } of piecesOf(file)) for (const { draft } of drafts) all.push(draft);
    return all;
  } finally {
    await file.handle.close();
  }
}

async function openToRead(path: string): Promise<Pick<DraftFile, 'name' | 'handle' | 'bytes'>> {
  let handle: FileHandle;
  try {
    // Without O_NONBLOCK a pipe of this name would be waited for.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw new Refusal(`${path} cannot be read (${reasonOf(error)}); name a file of JSON Lines`);
  }
  const facts = await handle.stat();
  if (facts.isFile()) return { name: path, handle, bytes: facts.size };
  await handle.close();
  // It is read twice, which only a file can be.
  throw new Refusal(`${path} is not a regular file; name a file of JSON Lines, or - for standard input`);
}

/** Standard input as a file, which can be read twice; it has no name, so that it ends with the process. */
async function keepInput(): Promise<Pick<DraftFile, 'name' | 'handle' | 'bytes'>> {
  try {
    const path = join(tmpdir(), `petstore-${randomUUID()}`);
    const handle = await open(path, 'wx+', 0o600);
    await unlink(path);
    for await (const chunk of process.stdin) await handle.appendFile(chunk);
    return { name: 'standard input', handle, bytes: (await handle.stat()).size };
  } catch (error) {
    const mend = `let TMPDIR name a folder with room, in place of ${tmpdir()}`;
    throw new Refusal(`standard input cannot be kept (${reasonOf(error)}); ${mend}`);
  }
}

/**
 * A piece at a time: its animals wait together, so that they share the disk's syncs. Answers the exit code: 0, or, as a
 * shell does, 128 and the number of the signal that came; a second signal ends the process at once.
 */
async function addAll(file: DraftFile, total: number, storage: PetStorage, progress: Progress): Promise<number> {
  let added = 0;
  /** The last line whose animal is added, as are all before it and none after it; undefined where there is none. */
  let line: number | undefined = file.after;
  const goOn = (): string => `the same command with --after ${line} goes on`;
  let signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | undefined;
  for (const each of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(each, () => (signal = each));
  const changed = (what: string): Refusal =>
    new Refusal(
      `${file.name} changed while it was imported (${what}); ${added} animals were added, where it had ${total}`,
    );
  try {
    for await (const { drafts, done } of piecesOf(file)) {
      if (signal !== undefined) {
        progress.clear();
        say(`interrupted: ${added} of ${total} animals were added; ${goOn()}`);
        return 128 + system.signals[signal];
      }
      const results = await Promise.allSettled(drafts.map(({ draft }) => storage.insert(draft)));
      const count = results.filter(({ status }) => status === 'fulfilled').length;
      added += count;
      line = drafts[count - 1]?.line ?? line;
      const failedAt = results.findIndex(({ status }) => status === 'rejected');
      // Some after the first that failed may be added all the same.
      if (failedAt >= 0 && failedAt < count) line = undefined;
      const failed = results[failedAt];
      if (failed?.status === 'rejected') throw failed.reason;
      progress.show('adding', done, added);
    }
  } catch (error) {
    if (error instanceof Refusal) throw changed(error.message);
    if (!(error instanceof PetstoreError)) throw error;
    if (line !== undefined) await print([goOn()]);
    const message = `${added} of ${total} animals were added, then: ${error.message}`;
    throw new PetstoreError('storage_unusable', message, { cause: error });
  }
  if (added !== total) throw changed('another number of lines');
  return 0;
}

/**
 * The animals in the file's order. Lines of white space alone are skipped, but counted.
 * @throws Refusal that names the first bad line by its number.
 */
async function* piecesOf(file: DraftFile): AsyncGenerator<Drafts, void, undefined> {
  const { name, handle, bytes, after } = file;
  const piece = Buffer.allocUnsafe(pieceBytes);
  let unfinished = '';
  let number = 1;
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await handle.read(piece, 0, Math.min(pieceBytes, bytes - at), at);
    if (bytesRead === 0) break;
    at += bytesRead;
    // As a byte string, so that the JSON reader sees bad UTF-8, and a character cut in two is whole again.
    const lines = (unfinished + piece.toString('latin1', 0, bytesRead)).split('\n');
    unfinished = at < bytes ? (lines.pop() ?? '') : '';
    if (unfinished.length > maxLineBytes)
      throw new Refusal(`${name} line ${number} is longer than ${maxLineBytes} bytes; give JSON Lines`);
    const drafts: { draft: PetDraft; line: number }[] = [];
    for (const line of lines) {
      if (number > after && !/^[ \t\r]*$/.test(line))
        drafts.push({ draft: readDraft(line, number, file), line: number });
      number++;
    }
    yield { drafts, done: at / bytes };
  }
}

function readDraft(line: string, number: number, { name, ignored }: DraftFile): PetDraft {
  let missing: readonly string[] = [];
  try {
    const value = parseJson(line);
    if (value instanceof Map) {
      missing = ['name', 'categoryId'].filter((member) => !value.has(member));
      const others = [...value.keys()].filter((member) => !['name', 'categoryId', 'status'].includes(member));
      for (const member of others) if (ignored.size <= maxIgnored) ignored.add(member);
    }
    return parseDraft(value);
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    // What is a body to the server is a line here.
    let rule = error.message.replace('The body', 'the line');
    for (const member of missing) rule = rule.replace(`${member} must`, `${member} is missing; it must`);
    throw new Refusal(`${name} line ${number}: ${rule}`);
  }
}

function ignoredOf({ ignored }: DraftFile): string {
  const named = [...ignored].slice(0, maxIgnored).map((member) => JSON.stringify(member.slice(0, 60)));
  const more = ignored.size > maxIgnored ? ' and others' : '';
  return `ignored: the members ${named.join(', ')}${more}; an animal has name, categoryId and status`;
}
