/**
 * The `import` command and `--seed`: they add the animals of a file of JSON Lines, all of them, or
 * none where a line is bad.
 */
import { createHash, type Hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import {
  parseDraft,
  parseJson,
  petFields,
  PetstoreError,
  type ImportTarget,
  type PetDraft,
  type StartDigests,
} from '../index.js';
import { largestBodyBytes } from '../options.js';
import { readRegularFile } from './files.js';
import {
  countOf,
  logTo,
  orRefuse,
  print,
  printNotice,
  program,
  refuse,
  showProgress,
} from './output.js';
import { readPath, readWholeNumber, type Run, type Setting } from './settings.js';
import { readStorage } from './storages.js';

/** How many bytes of the file are added in one commit: about a thousand animals. */
const pieceBytes = 2 ** 16;

/**
 * The longest line: the largest pet that a server adds, with its id. A line longer than
 * `pieceBytes` is a piece of its own.
 */
const maxLineBytes = largestBodyBytes + 2 ** 10;

/** The longest file: `indexOf` of Node's Buffer answers no offset beyond this. */
const maxFileBytes = 2 ** 31 - 1;

/** The longest seed, all of which is one commit. */
const maxSeedBytes = 2 ** 24;

/** A file of JSON Lines, read whole. */
interface DraftFile {
  /** As messages name it. */
  readonly name: string;
  readonly bytes: Buffer;
  /** How many lines at its beginning are left out. */
  readonly after: number;
  /** Members that no animal has: as the lines are read, the first ten are noted here. */
  readonly ignored: Set<string>;
}

/** The animals that an empty storage begins with. */
interface Seed {
  /** The file, as the operator named it. */
  readonly path: string;
  readonly drafts: readonly PetDraft[];
  /** Tells the file from others by its digest. */
  readonly source: string;
}

/**
 * Runs `import FILE [--after LINE]`: checks all lines, and then adds the animals, a piece a commit.
 *
 * @throws Refusal for the file
 * @throws PetstoreError `storage_…`
 */
export const run: Run = async (settings, [path, ...others]) => {
  if (path === undefined || others.length > 0)
    refuse(
      '`import` needs one FILE of JSON Lines, such as data/animals.jsonl, or - for standard input',
    );

  const setting = settings.get('--storage');
  const named = await readStorage(setting);
  if (named === undefined)
    refuse(`${setting.from} ${setting.text} would forget what is imported; use file:PATH`);

  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  const file = await readWhole(path === '-' ? path : readPath(path, 'FILE'), after);

  let total = 0;
  let before = 0;

  try {
    for (const { drafts, done } of piecesOf(file))
      showBar('checking', done, (total += drafts.length));

    const source = { digest: digestOf(file), startDigests: startDigestsOf(file) };
    const target = await named.openImport(source, logTo(process.stderr));
    before = target.start;
    await addAll(file, total, target).finally(() => target.close());
  } finally {
    showProgress('');
  }

  const ignored = JSON.stringify([...file.ignored]).slice(1, -1);
  if (ignored !== '') printNotice(`ignored: ${ignored}; an animal has ${members.join(', ')}`);

  const added = `${countOf(total - before, 'animal')} added to ${named.text}`;
  if (before === 0) return print([added], added);
  await print([`${added}; ${before} of ${file.name} were there before`]);
};

/** @param done How much of the file is done, from 0 to 1. */
function showBar(what: string, done: number, count: number): void {
  const bar = '#'.repeat(done * 30).padEnd(30, '-');
  showProgress(`${what} [${bar}] ${Math.floor(done * 100)}% ${countOf(count, 'animal')}`);
}

/**
 * Reads and checks the animals that an empty storage begins with.
 *
 * @throws Refusal
 */
export async function readSeed({ text: path, from }: Setting): Promise<Seed> {
  const hint = `name a file of JSON Lines, of 16 MiB at most; \`${program} import\` takes more`;
  const bytes = await orRefuse(`${from} ${path} cannot be read`, hint, () =>
    readRegularFile(path, maxSeedBytes),
  );
  const file = draftFile(path, bytes, 0);

  const pieces = [...piecesOf(file)];
  const drafts = pieces.flatMap((piece) => piece.drafts);
  return { path, drafts, source: pieces.at(-1)?.startDigest() ?? digestOf(file) };
}

/**
 * Reads the whole file, so that what is added is what was checked, and so that a pipe can be read.
 *
 * @throws Refusal
 */
async function readWhole(path: string, after: number): Promise<DraftFile> {
  const name = path === '-' ? 'standard input' : path;
  const mend = 'name a file of JSON Lines, or - for standard input; split what is over 2 GiB';
  const readBytes = () => (path === '-' ? buffer(process.stdin) : readFileSync(path));
  const bytes = await orRefuse(`${name} cannot be read`, mend, readBytes);
  // Node itself refuses only a regular file.
  if (bytes.length > maxFileBytes) refuse(`${name} is longer than 2 GiB; split it`);

  return draftFile(name, bytes, after);
}

/** @throws Refusal for bytes that are not UTF-8 */
function draftFile(name: string, bytes: Buffer, after: number): DraftFile {
  const encoding = otherEncoding(bytes);
  if (encoding !== undefined)
    refuse(`${name} is ${encoding}; make it UTF-8: \`iconv -f ${encoding} -t UTF-8\``);

  return { name, bytes, after, ignored: new Set() };
}

/** Returns the encoding of a text that is UTF-16 or UTF-32, as `iconv` names it. */
function otherEncoding(bytes: Buffer): string | undefined {
  const start = bytes.toString('latin1', 0, 4);
  if (start === '\xff\xfe\0\0' || start === '\0\0\xfe\xff') return 'UTF-32';
  if (/^(?:\xff\xfe|\xfe\xff)/.test(start)) return 'UTF-16';
  // Without a byte order mark: the first characters of JSON are ASCII.
  if (/^[^\0]\0[^\0]\0$/.test(start)) return 'UTF-16LE';
  return /^\0[^\0]\0[^\0]$/.test(start) ? 'UTF-16BE' : undefined;
}

/** Tells a source from others. With another line to go on after it is another source. */
function digestOf({ bytes, after }: DraftFile): string {
  return createHash('sha256').update(bytes).update(`\n--after ${after}`).digest('hex');
}

/** Begins the digest of the first pets of a file, which the lines of these pets complete. */
function startHash({ after }: DraftFile): Hash {
  return createHash('sha256').update(`--after ${after}\n`);
}

/** Makes the function that tells whether a file begins as one that was imported (F11). */
function startDigestsOf(file: DraftFile): StartDigests {
  return (counts) => {
    const digests = new Map<number, string>();
    if (counts.size === 0) return digests;

    const hash = startHash(file);
    let count = 0;
    for (const { lines } of linesOf(file)) {
      for (const { text } of lines) {
        hash.update(`${text}\n`, 'latin1');
        if (counts.has(++count)) digests.set(count, hash.copy().digest('hex'));
      }
    }
    return digests;
  };
}

/**
 * Adds what the target lacks of the file, piece after piece. The target keeps the place that it has
 * come to, so whatever ends this, the same command goes on from there.
 */
async function addAll(file: DraftFile, total: number, target: ImportTarget) {
  /** How many animals of the file the target has. */
  let place = target.start;

  const interrupt = (_: unknown, signal: number) => {
    showProgress('');
    const added = `at least ${place} of ${total} animals were added`;
    printNotice(`interrupted: ${added}; the same command goes on`);
    // The exit code that a shell gives a signal.
    process.exit(128 + signal);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, interrupt);

  /** How many animals of the file were read. */
  let passed = 0;

  for (const { drafts, done, startDigest } of piecesOf(file)) {
    passed += drafts.length;
    if (passed <= place) continue;

    try {
      place = await target.add(drafts.slice(drafts.length - (passed - place)), startDigest());
      // The place goes back after a failover to a standby that lagged. What is added behind a gap
      // would hide the gap.
      if (!(place >= passed))
        throw new PetstoreError('storage_unusable', 'The storage has lost animals of this import.');
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      const added = `At least ${place} of ${total} animals were added, then: ${error.message}`;
      throw new PetstoreError('storage_unusable', `${added} The same command goes on.`, {
        cause: error,
      });
    }

    showBar('adding', done, place);
  }
}

/** A line of a pet. */
interface PetLine {
  /** Its bytes, without white space at its end. */
  readonly text: string;
  /** Its number in the file, from 1. */
  readonly number: number;
}

const byteOrderMark = '\xef\xbb\xbf';
const blankLine = new RegExp(`^(?:${byteOrderMark})?[ \\t\\r]*$`);

/**
 * Reads the lines of pets of a file in pieces to be added together; `done` is how much of the file
 * has been read with them, from 0 to 1.
 *
 * @throws Refusal for a line that is too long; behind the last line, for an `after` that is no line
 * of the file
 */
function* linesOf({ name, bytes, after }: DraftFile) {
  let number = 1;
  const start = bytes.toString('latin1', 0, 3) === byteOrderMark ? 3 : 0;

  for (let at = start, end: number; at < bytes.length; at = end + 1) {
    const within = bytes.lastIndexOf('\n', at + pieceBytes);
    const lineEnd = within >= at ? within : bytes.indexOf('\n', at + pieceBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + pieceBytes + maxLineBytes + 1);

    const lines: PetLine[] = [];
    // The lines are byte strings, in which the reader of JSON finds bad UTF-8.
    for (const line of bytes.toString('latin1', at, end).split('\n')) {
      if (line.length > maxLineBytes)
        refuse(`${name} line ${number} is longer than 16 MiB. ${jsonLinesHint(line)}`);

      if (number > after && !blankLine.test(line))
        lines.push({ text: line.replace(/[ \t\r]+$/, ''), number });
      number++;
    }

    yield { lines, done: end / bytes.length };
  }

  if (after >= number)
    refuse(
      `--after ${after} is past the end of ${name}, which has ${countOf(number - 1, 'line')}; ` +
        'name a line that it has',
    );
}

/**
 * Reads the pets of a file in the pieces of `linesOf`. `startDigest` computes the digest of all
 * pets up to the end of the piece.
 *
 * @throws Refusal that names a bad line by its number, and what `linesOf` throws
 */
function* piecesOf(file: DraftFile) {
  const hash = startHash(file);

  for (const { lines, done } of linesOf(file)) {
    const drafts = lines.map((line) => readDraft(line, file));
    hash.update(lines.map(({ text }) => `${text}\n`).join(''), 'latin1');
    yield { drafts, done, startDigest: () => hash.copy().digest('hex') };
  }
}

const members = petFields.map(({ name }) => name);

/**
 * Reads the pet of a line, and notes the members that are ignored.
 *
 * @throws Refusal
 */
function readDraft({ text, number }: PetLine, { name, ignored }: DraftFile): PetDraft {
  let isOneObject = false;
  try {
    const value = parseJson(text);
    isOneObject = value instanceof Map;
    const names = value instanceof Map ? value.keys() : [];
    for (const each of names)
      if (!members.includes(each) && ignored.size < 10) ignored.add(each.slice(0, 60));

    return parseDraft(value, 'the line');
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    const hint = isOneObject ? '' : ` ${jsonLinesHint(text)}`;
    refuse(`${name} line ${number}: ${error.message}${hint}`);
  }
}

/** Returns how to make JSON Lines of what begins with a line, such as an array or indented JSON. */
function jsonLinesHint(line: string): string {
  const filter = /^[ \t]*\[/.test(line) ? "'.[]'" : '.';
  return `Write each pet on a line of its own: \`jq -c ${filter}\` does that.`;
}
