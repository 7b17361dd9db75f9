/** The `import` command and `--seed`: add the animals of a file of JSON Lines: all or, where a line is bad, none. */
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { parseDraft, parseJson, PetstoreError, type Log, type PetDraft, type PetStorage } from '../index.js';
import { logTo, orRefuse, print, Refusal, say, showProgress } from './output.js';
import { readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals, added at once: they share a sync of the disk, and fit into a storage's queue. */
const pieceBytes = 2 ** 16;
/** A line over `pieceBytes` is a piece of its own: a storage's queue takes any animal that is alone. */
const maxLineBytes = 2 ** 22;

/** Runs `import`. @throws Refusal for the file; PetstoreError `storage_…` */
export async function importAnimals(settings: Settings, [path, ...others]: readonly string[]): Promise<void> {
  if (path === undefined || others.length > 0)
    throw new Refusal('`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input');
  const setting = settings.get('--storage');
  const named = await readStorage(setting);
  if (named === undefined)
    throw new Refusal(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);
  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  let log = logTo(process.stderr, process.stderr.isTTY ? 'text' : 'json');
  const file = await readWhole(path, after);
  let total = 0;
  try {
    for (const { drafts, done } of piecesOf(file)) showBar('checking', done, (total += drafts.length));
    const storage = await named.open('import', (...line) => log(...line));
    // Once open, only `addAll` reports failures, with the count of animals.
    log = () => undefined;
    await addAll(file, total, storage).finally(() => storage.close());
  } finally {
    showProgress('');
  }
  const ignored = JSON.stringify([...file.ignored]).slice(1, -1);
  if (ignored !== '') say(`ignored: ${ignored}; an animal has ${members.join(', ')}`);
  await print([`${total} animals added to ${named.text}`], `${total} animals were added to ${named.text}`);
}

function showBar(what: string, done: number, count: number): void {
  showProgress(`${what} [${'#'.repeat(done * 30).padEnd(30, '-')}] ${Math.floor(done * 100)}% ${count} animals`);
}

/** Reads and checks the file; the function it returns adds the animals to a storage that is empty. @throws Refusal */
export async function readSeed(path: string) {
  const drafts = [...piecesOf(await readWhole(path === '-' ? './-' : path, 0))].map((piece) => piece.drafts);
  return async (storage: PetStorage, log: Log) => {
    if ((await storage.list({ limit: 1 })).length > 0)
      return log('info', 'not seeded: the storage holds animals', { file: path });
    for (const piece of drafts) await Promise.all(piece.map(({ draft }) => storage.insert(draft)));
    log('info', 'seeded', { file: path, pets: drafts.flat().length });
  };
}

/** Reads the whole file, so that what is added is what was checked, and a pipe can be read. @throws Refusal */
async function readWhole(path: string, after: number) {
  const name = path === '-' ? 'standard input' : path;
  const mend = 'name a file of JSON Lines, of at most 2 GiB, or - for standard input';
  const read = () => (path === '-' ? buffer(process.stdin) : readFileSync(path));
  const bytes = await orRefuse(`${name} cannot be read`, mend, read);
  return { name, bytes, after, ignored: new Set<string>() };
}

type DraftFile = Awaited<ReturnType<typeof readWhole>>;

/** Adds piece after piece; a signal ends the process between two, with the exit code that a shell gives. */
async function addAll(file: DraftFile, total: number, storage: PetStorage): Promise<void> {
  let added = 0;
  let lastLine = file.after;
  let signal = 0;
  for (const each of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(each, (_, received: number) => (signal = received));
  for (const { drafts, done } of piecesOf(file)) {
    if (signal > 0) {
      showProgress('');
      say(`interrupted: ${added} of ${total} animals were added; the same command with --after ${lastLine} goes on`);
      process.exit(128 + signal);
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
    showBar('adding', done, added);
  }
}

/** Animals to add together, and how much of the file is read with them, from 0 to 1. @throws Refusal by line number. */
function* piecesOf({ name, bytes, after, ignored }: DraftFile) {
  let number = 1;
  for (let at = 0, end: number; at < bytes.length; at = end + 1) {
    const within = bytes.lastIndexOf('\n', at + pieceBytes);
    const lineEnd = within >= at ? within : bytes.indexOf('\n', at + pieceBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + pieceBytes + maxLineBytes + 1);
    const drafts: { draft: PetDraft; line: number }[] = [];
    // As a byte string, in which the JSON reader finds bad UTF-8.
    for (const line of bytes.toString('latin1', at, end).split('\n')) {
      if (line.length > maxLineBytes) throw new Refusal(`${name} line ${number} is longer than 4 MiB; give JSON Lines`);
      if (number > after && !/^[ \t\r]*$/.test(line))
        drafts.push({ draft: readDraft(line, `${name} line ${number}`, ignored), line: number });
      number++;
    }
    yield { drafts, done: end / bytes.length };
  }
}

const members = ['name', 'categoryId', 'status'];

/** Adds ten members at most to the ignored ones. @throws Refusal */
function readDraft(line: string, place: string, ignored: Set<string>): PetDraft {
  let names: string[] = members;
  try {
    const value = parseJson(line);
    if (value instanceof Map) names = [...value.keys()];
    for (const name of names) if (!members.includes(name) && ignored.size < 10) ignored.add(name.slice(0, 60));
    return parseDraft(value);
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    const rule = error.message.replace('The body', 'the line');
    const told = rule.replace(/(name|categoryId) must/g, (words, name) =>
      names.includes(name) ? words : `${name} is missing; it must`,
    );
    throw new Refusal(`${place}: ${told}`);
  }
}
