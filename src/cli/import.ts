/** The `import` command and `--seed`: add the animals of a file of JSON Lines: all or, where a line is bad, none. */
import { readFileSync, statSync } from 'node:fs';
import { constants as system } from 'node:os';
import { parseDraft, parseJson, PetstoreError, type Log, type PetDraft, type PetStorage } from '../index.js';
import { logTo, orRefuse, print, Progress, Refusal, say } from './output.js';
import { readLogFormat, readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals, added at once: they share a sync of the disk, and fit into a storage's queue. */
const pieceBytes = 2 ** 16;
/** With the rest of its piece, a line of this length fits into a storage's queue. */
const maxLineBytes = 2 ** 22;
const maxIgnoredNames = 10;

type DraftFile = Awaited<ReturnType<typeof openDrafts>>;

/** Runs `import`. @throws Refusal for the file; PetstoreError `storage_…` */
export async function importAnimals(settings: Settings, [path, ...others]: readonly string[]): Promise<void> {
  if (path === undefined || others.length > 0)
    throw new Refusal('`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input');
  const setting = settings.get('--storage');
  const { text, durable } = await readStorage(setting);
  if (durable === undefined)
    throw new Refusal(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);
  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  const log = logTo(process.stderr, readLogFormat(settings, process.stderr));
  const file = await openDrafts(path, after);
  const progress = new Progress();
  let total = 0;
  try {
    for (const { drafts, done } of piecesOf(file)) progress.show('checking', done, (total += drafts.length));
    let isOpen = false;
    // Once open, only `addAll` reports failures, with the count of animals.
    const storage = await durable.open((...line) => {
      if (!isOpen) log(...line);
    });
    isOpen = true;
    const isComplete = await addAll(file, total, storage, progress).finally(() => storage.close());
    if (!isComplete) return;
  } finally {
    progress.clear();
  }
  const ignored = [...file.ignored].slice(0, maxIgnoredNames).map((member) => JSON.stringify(member.slice(0, 60)));
  const more = file.ignored.size > maxIgnoredNames ? ' and others' : '';
  if (ignored.length > 0)
    say(`ignored: the members ${ignored.join(', ')}${more}; an animal has name, categoryId and status`);
  await print([`${total} animals added to ${text}`], `${total} animals were added to ${text}`);
}

/** Reads and checks the file; the function it returns adds the animals to a storage that is empty. @throws Refusal */
export async function readSeed(file: string) {
  // A file named - : only an import reads standard input.
  const pieces = [...piecesOf(await openDrafts(file === '-' ? './-' : file, 0))];
  return async (storage: PetStorage, log: Log) => {
    if ((await storage.list({ limit: 1 })).length > 0)
      return log('info', 'not seeded: the storage holds animals', { file });
    for (const { drafts } of pieces) await Promise.all(drafts.map(({ draft }) => storage.insert(draft)));
    log('info', 'seeded', { file, pets: pieces.flatMap(({ drafts }) => drafts).length });
  };
}

/** Reads the whole file, so that what is added is what was checked, and a pipe can be read. @throws Refusal */
async function openDrafts(path: string, after: number) {
  const name = path === '-' ? 'standard input' : path;
  const bytes = await orRefuse(`${name} cannot be read`, 'name a file of JSON Lines, of at most 2 GiB', async () => {
    if (path === '-') {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(chunk);
      return Buffer.concat(chunks);
    }
    if (statSync(path).isFile()) return readFileSync(path);
    throw new Refusal(`${path} is not a regular file; name a file of JSON Lines, or - for standard input`);
  });
  return { name, bytes, after, ignored: new Set<string>() };
}

/** Adds piece after piece; false where a signal stopped it, for which it sets the exit code that a shell gives. */
async function addAll(file: DraftFile, total: number, storage: PetStorage, progress: Progress): Promise<boolean> {
  let added = 0;
  let lastLine = file.after;
  let signal: NodeJS.Signals | undefined;
  for (const each of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(each, (received) => (signal = received));
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
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) {
      if (!(failed.reason instanceof PetstoreError)) throw failed.reason;
      // Only where all before it were added, and none after it, is there a line to go on after.
      if (results.indexOf(failed) === count) await print([`the same command with --after ${lastLine} goes on`]);
      const message = `${added} of ${total} animals were added, then: ${failed.reason.message}`;
      throw new PetstoreError('storage_unusable', message, { cause: failed.reason });
    }
    progress.show('adding', done, added);
  }
  return true;
}

/** Animals to add together, and how much of the file is read with them, from 0 to 1. @throws Refusal by line number. */
function* piecesOf(file: DraftFile) {
  const { name, bytes, after } = file;
  let number = 1;
  for (let at = 0, end: number; at < bytes.length; at = end + 1) {
    const lineEnd = bytes.indexOf('\n', at + pieceBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + pieceBytes + maxLineBytes + 1);
    const drafts: { draft: PetDraft; line: number }[] = [];
    // As a byte string, in which the JSON reader finds bad UTF-8.
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
  let missing: string[] = [];
  try {
    const value = parseJson(line);
    if (value instanceof Map) {
      missing = ['name', 'categoryId'].filter((member) => !value.has(member));
      for (const member of value.keys())
        if (!['name', 'categoryId', 'status'].includes(member) && ignored.size <= maxIgnoredNames) ignored.add(member);
    }
    return parseDraft(value);
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    let rule = error.message.replace('The body', 'the line');
    for (const member of missing) rule = rule.replace(`${member} must`, `${member} is missing; it must`);
    throw new Refusal(`${name} line ${number}: ${rule}`);
  }
}
