/** The `import` command and `--seed`: add the animals of a file of JSON Lines: all or, where a line is bad, none. */
import { readFileSync, statSync } from 'node:fs';
import { constants as system } from 'node:os';
import { parseDraft, parseJson, PetstoreError, type Log, type PetDraft, type PetStorage } from '../index.js';
import { logTo, orRefuse, print, Progress, Refusal, say } from './output.js';
import { readLogFormat, readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals: enough to share a sync of the disk, fewer than a storage refuses. */
const pieceBytes = 2 ** 16;
/** A storage must take in a line of this length with the rest of its piece. */
const maxLineBytes = 2 ** 22;
const maxIgnored = 10;

type DraftFile = Awaited<ReturnType<typeof openDrafts>>;

/** Runs `import`. @throws Refusal for the file; PetstoreError `storage_…` */
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
    // Later failures are said once, with the count.
    log = () => undefined;
    try {
      if (!(await addAll(file, total, storage, progress))) return;
    } finally {
      await storage.close();
    }
  } finally {
    progress.clear();
  }
  const ignored = [...file.ignored].slice(0, maxIgnored).map((member) => JSON.stringify(member.slice(0, 60)));
  const more = file.ignored.size > maxIgnored ? ' and others' : '';
  if (ignored.length > 0)
    say(`ignored: the members ${ignored.join(', ')}${more}; an animal has name, categoryId and status`);
  await print([`${total} animals added to ${text}`], `${total} animals were added to ${text}`);
}

/** What fills an empty storage with the animals of a file, checked already. @throws Refusal */
export async function readSeed(file: string) {
  // Standard input is for an import alone.
  const pieces = [...piecesOf(await openDrafts(file === '-' ? './-' : file, 0))];
  return async (storage: PetStorage, log: Log) => {
    if ((await storage.list({ limit: 1 })).length > 0)
      return log('info', 'not seeded: the storage holds animals', { file });
    for (const { drafts } of pieces) await Promise.all(drafts.map(({ draft }) => storage.insert(draft)));
    log('info', 'seeded', { file, pets: pieces.flatMap(({ drafts }) => drafts).length });
  };
}

/** A file in memory: what was checked is what is added. */
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

/** Whether it came to its end: after a signal it sets the exit code as a shell does. */
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
      // Where later ones were added all the same there is no line to go on after.
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
  let missing: string[] = [];
  try {
    const value = parseJson(line);
    if (value instanceof Map) {
      missing = ['name', 'categoryId'].filter((member) => !value.has(member));
      for (const member of value.keys())
        if (!['name', 'categoryId', 'status'].includes(member) && ignored.size <= maxIgnored) ignored.add(member);
    }
    return parseDraft(value);
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    let rule = error.message.replace('The body', 'the line');
    for (const member of missing) rule = rule.replace(`${member} must`, `${member} is missing; it must`);
    throw new Refusal(`${name} line ${number}: ${rule}`);
  }
}
