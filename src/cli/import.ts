/**
 * The `import` command and `--seed`: add the animals of a file of JSON Lines: all or, where a line
 * is bad, none.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import {
  parseDraft,
  parseJson,
  petFields,
  PetstoreError,
  type ImportTarget,
  type PetDraft,
} from '../index.js';
import { countOf, logTo, orRefuse, print, Refusal, say, showProgress } from './output.js';
import { readWholeNumber, type Settings } from './settings.js';
import { readStorage } from './storages.js';

/** About a thousand animals, added in one commit. */
const pieceBytes = 2 ** 16;
/** A line over `pieceBytes` is a piece of its own. */
const maxLineBytes = 2 ** 22;

/** Runs `import`. @throws Refusal for the file; PetstoreError `storage_…` */
export async function importAnimals(
  settings: Settings,
  [path, ...others]: readonly string[],
): Promise<void> {
  if (path === undefined || others.length > 0)
    throw new Refusal(
      '`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input',
    );
  const setting = settings.get('--storage');
  const named = await readStorage(setting);
  if (named === undefined)
    throw new Refusal(
      `${setting.from} ${setting.text} would forget what is imported; use file:PATH`,
    );
  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  const log = logTo(process.stderr, process.stderr.isTTY ? 'text' : 'json');
  const file = await readWhole(path, after);
  let total = 0;
  let before = 0;
  try {
    for (const { drafts, done } of piecesOf(file))
      showBar('checking', done, (total += drafts.length));
    const target = await named.openImport(digestOf(file), log);
    before = target.start;
    await addAll(file, total, target).finally(() => target.close());
  } finally {
    showProgress('');
  }
  const ignored = JSON.stringify([...file.ignored]).slice(1, -1);
  if (ignored !== '') say(`ignored: ${ignored}; an animal has ${members.join(', ')}`);
  const told = `${countOf(total - before, 'animal')} added to ${named.text}`;
  if (before === 0) return print([told], told);
  await print([`${told}; ${before} of ${file.name} were there before`]);
}

function showBar(what: string, done: number, count: number): void {
  showProgress(
    `${what} [${'#'.repeat(done * 30).padEnd(30, '-')}] ${Math.floor(done * 100)}% ${countOf(count, 'animal')}`,
  );
}

/** The most bytes of a seed, which is one commit. */
const maxSeedBytes = 2 ** 24;

/** Reads and checks the animals that an empty storage begins with. @throws Refusal */
export async function readSeed(path: string) {
  const file = await readWhole(path === '-' ? './-' : path, 0);
  if (file.bytes.length > maxSeedBytes)
    throw new Refusal(`${path} is longer than 16 MiB; use \`import\` for it`);
  return { drafts: [...piecesOf(file)].flatMap(({ drafts }) => drafts), source: digestOf(file) };
}

/**
 * Reads the whole file, so that what is added is what was checked, and a pipe can be read. @throws
 * Refusal
 */
async function readWhole(path: string, after: number) {
  const name = path === '-' ? 'standard input' : path;
  const mend = 'name a file of JSON Lines, of at most 2 GiB, or - for standard input';
  const read = () => (path === '-' ? buffer(process.stdin) : readFileSync(path));
  const bytes = await orRefuse(`${name} cannot be read`, mend, read);
  return { name, bytes, after, ignored: new Set<string>() };
}

type DraftFile = Awaited<ReturnType<typeof readWhole>>;

/** What tells a source: another line to go on after makes another. */
function digestOf({ bytes, after }: DraftFile): string {
  return createHash('sha256').update(bytes).update(`\n--after ${after}`).digest('hex');
}

/**
 * Adds what is not there yet, piece after piece. The target keeps the place: whatever ends this, it
 * can be gone on.
 */
async function addAll(file: DraftFile, total: number, target: ImportTarget): Promise<void> {
  let place = target.start;
  const interrupt = (_: unknown, signal: number) => {
    showProgress('');
    say(`interrupted: at least ${place} of ${total} animals were added; the same command goes on`);
    process.exit(128 + signal);
  };
  for (const each of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(each, interrupt);
  let passed = 0;
  for (const { drafts, done } of piecesOf(file)) {
    passed += drafts.length;
    if (passed <= place) continue;
    try {
      place = await target.add(drafts.slice(drafts.length - (passed - place)));
      // As after a failover to a standby that lagged: what is added behind a gap would hide it.
      if (!(place >= passed))
        throw new PetstoreError('storage_unusable', 'The storage has lost animals of this import.');
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      const told = `At least ${place} of ${total} animals were added, then: ${error.message}`;
      throw new PetstoreError('storage_unusable', `${told} The same command goes on.`, {
        cause: error,
      });
    }
    showBar('adding', done, place);
  }
}

/**
 * Animals to add together, and how much of the file is read with them, from 0 to 1. @throws Refusal
 * by line number.
 */
function* piecesOf({ name, bytes, after, ignored }: DraftFile) {
  let number = 1;
  for (let at = 0, end: number; at < bytes.length; at = end + 1) {
    const within = bytes.lastIndexOf('\n', at + pieceBytes);
    const lineEnd = within >= at ? within : bytes.indexOf('\n', at + pieceBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + pieceBytes + maxLineBytes + 1);
    const drafts: PetDraft[] = [];
    // As a byte string, in which the JSON reader finds bad UTF-8.
    for (const line of bytes.toString('latin1', at, end).split('\n')) {
      if (line.length > maxLineBytes)
        throw new Refusal(`${name} line ${number} is longer than 4 MiB; give JSON Lines`);
      if (number > after && !/^[ \t\r]*$/.test(line))
        drafts.push(readDraft(line, `${name} line ${number}`, ignored));
      number++;
    }
    yield { drafts, done: end / bytes.length };
  }
}

const members = petFields.map(({ name }) => name);

/** Adds ten members at most to the ignored ones. @throws Refusal */
function readDraft(line: string, place: string, ignored: Set<string>): PetDraft {
  try {
    const value = parseJson(line);
    const names = value instanceof Map ? value.keys() : [];
    for (const name of names)
      if (!members.includes(name) && ignored.size < 10) ignored.add(name.slice(0, 60));
    return parseDraft(value, 'the line');
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    throw new Refusal(`${place}: ${error.message}`);
  }
}
