/** The `import` command: adds the animals of a file of JSON Lines to a storage: all or, where a line is bad, none. */
import { readFileSync, statSync } from 'node:fs';
import { constants as system } from 'node:os';
import { buffer } from 'node:stream/consumers';
import { parseDraft, parseJson, PetstoreError, type Log, type PetDraft, type PetStorage } from '../index.js';
import { logTo, orRefuse, print, Progress, Refusal, say } from './output.js';
import { readLogFormat, readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals: enough to share a sync of the disk, fewer than a storage refuses to let wait. */
const pieceBytes = 2 ** 16;
/** A longer line is refused: with those of its piece, a storage must take it in while nothing else waits. */
const maxLineBytes = 2 ** 22;
const maxIgnored = 10;

/** A file in memory: what was checked is what is added. */
interface DraftFile {
  readonly name: string;
  readonly bytes: Buffer;
  readonly after: number;
  /** Members that no animal has. */
  readonly ignored: Set<string>;
}

/** Animals that are added together; `done` is how much of the file is read with them, from 0 to 1. */
interface Piece {
  readonly drafts: readonly { readonly draft: PetDraft; readonly line: number }[];
  readonly done: number;
}

/** Runs `import`. @throws Refusal for what is wrong with the file; PetstoreError `storage_…` for the storage. */
export async function importAnimals(settings: Settings, [path, ...others]: readonly string[]): Promise<void> {
  if (path === undefined || others.length > 0)
    throw new Refusal('`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input');
  const setting = settings.get('--storage');
  const { text, lasting } = await readStorage(setting);
  if (lasting === undefined)
    throw new Refusal(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);
  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  let log = logTo(process.stderr, readLogFormat(settings, process.stderr));
  const file = await openDrafts(path, after);
  const progress = new Progress();
  let total = 0;
  try {
    for (const { drafts, done } of piecesOf(file)) progress.show('checking', done, (total += drafts.length));
    const storage = await lasting.open((...said) => log(...said));
    // What it says later, such as a full disk, is said once, with the count.
    log = () => undefined;
    try {
      if (!(await addAll(file, total, storage, progress))) return;
    } finally {
      await storage.close();
    }
  } finally {
    progress.clear();
  }
  const named = [...file.ignored].slice(0, maxIgnored).map((member) => JSON.stringify(member.slice(0, 60)));
  const more = file.ignored.size > maxIgnored ? ' and others' : '';
  if (named.length > 0)
    say(`ignored: the members ${named.join(', ')}${more}; an animal has name, categoryId and status`);
  await print([`${total} animals added to ${text}`], `${total} animals were added to ${text}`);
}

/** What fills an empty storage with the animals of a file, all checked. @throws Refusal */
export async function readSeed(file: string): Promise<(storage: PetStorage, log: Log) => Promise<void>> {
  const pieces = [...piecesOf(await openDrafts(file, 0))];
  return async (storage, log) => {
    if ((await storage.list({ limit: 1 })).length > 0)
      return log('info', 'not seeded: the storage holds animals', { file });
    for (const { drafts } of pieces) await Promise.all(drafts.map(({ draft }) => storage.insert(draft)));
    log('info', 'seeded', { file, pets: pieces.flatMap(({ drafts }) => drafts).length });
  };
}

async function openDrafts(path: string, after: number): Promise<DraftFile> {
  const name = path === '-' ? 'standard input' : path;
  const bytes = await orRefuse(`${name} cannot be read`, 'name a file of JSON Lines', () => {
    if (path === '-') return buffer(process.stdin);
    if (statSync(path).isFile()) return readFileSync(path);
    throw new Refusal(`${path} is not a regular file; name a file of JSON Lines, or - for standard input`);
  });
  return { name, bytes, after, ignored: new Set() };
}

/** Whether it came to its end: after a signal it does not, and sets the exit code as a shell does. */
async function addAll(file: DraftFile, total: number, storage: PetStorage, progress: Progress): Promise<boolean> {
  let added = 0;
  let lastLine = file.after;
  let signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | undefined;
  for (const each of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(each, () => (signal = each));
  for (const { drafts, done } of piecesOf(file)) {
    if (signal !== undefined) {
      progress.clear();
      say(`interrupted: ${added} of ${total} animals were added; the same command with --after ${lastLine} goes on`);
      process.exitCode = 128 + system.signals[signal];
      return false;
    }
    const results = await Promise.allSettled(drafts.map(({ draft }) => storage.insert(draft)));
    const count = results.filter(({ status }) => status === 'fulfilled').length;
    added += count;
    lastLine = drafts[count - 1]?.line ?? lastLine;
    const failedAt = results.findIndex(({ status }) => status === 'rejected');
    const failed = results[failedAt];
    if (failed?.status === 'rejected') {
      if (!(failed.reason instanceof PetstoreError)) throw failed.reason;
      // Some after the first that failed may be added all the same: then there is no line to go on after.
      if (failedAt === count) await print([`the same command with --after ${lastLine} goes on`]);
      const message = `${added} of ${total} animals were added, then: ${failed.reason.message}`;
      throw new PetstoreError('storage_unusable', message, { cause: failed.reason });
    }
    progress.show('adding', done, added);
  }
  return true;
}

/** Blank lines are counted and skipped. @throws Refusal for a bad line, by number. */
function* piecesOf(file: DraftFile): Generator<Piece, void, undefined> {
  const { name, bytes, after } = file;
  let number = 1;
  for (let at = 0, end: number; at < bytes.length; at = end + 1) {
    const lineEnd = bytes.indexOf('\n', at + pieceBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + pieceBytes + maxLineBytes + 1);
    const drafts: { draft: PetDraft; line: number }[] = [];
    // As a byte string, so that the JSON reader sees bad UTF-8.
    for (const line of bytes.toString('latin1', at, end).split('\n')) {
      if (line.length > maxLineBytes)
        throw new Refusal(`${name} line ${number} is longer than ${maxLineBytes} bytes; give JSON Lines`);
      if (number > after && !/^[ \t\r]*$/.test(line))
        drafts.push({ draft: readDraft(line, number, file), line: number });
      number++;
    }
    yield { drafts, done: end / bytes.length };
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
    let rule = error.message.replace('The body', 'the line');
    for (const member of missing) rule = rule.replace(`${member} must`, `${member} is missing; it must`);
    throw new Refusal(`${name} line ${number}: ${rule}`);
  }
}
