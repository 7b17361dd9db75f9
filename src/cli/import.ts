/**
 * Implements the `import` command and reads the file of `--seed`. Both reject the whole file if one
 * line is not valid.
 */
import { createHash, type Hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import {
  codeOf,
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
  showBar,
  showProgress,
} from './output.js';
import { readPath, type Setting } from './setting-text.js';
import { readWholeNumber } from './setting-values.js';
import type { Run } from './settings.js';
import { readStorage } from './storages.js';

/** The size of a batch in bytes of the file, which are about a thousand pets. */
const batchBytes = 2 ** 16;

/** The longest line in bytes: the largest pet that a server adds, with its id. */
const maxLineBytes = largestBodyBytes + 2 ** 10;

/** The longest file in bytes, because `Buffer.indexOf` returns no larger offset. */
const maxFileBytes = 2 ** 31 - 1;

/** The longest seed in bytes, because all of it is one commit. */
const maxSeedBytes = 2 ** 24;

/** A file of JSON Lines in memory. */
interface DraftFile {
  /** The name that messages show. */
  readonly name: string;
  readonly bytes: Buffer;
  /** The number of lines to skip. */
  readonly after: number;
  /** The first ten unknown members; filled while the lines are read. */
  readonly ignored: Set<string>;
}

/** The pets that an empty storage starts with. */
interface Seed {
  /** The path, as the operator wrote it. */
  readonly path: string;
  readonly drafts: readonly PetDraft[];
  /** The digest that identifies the file. */
  readonly source: string;
}

/**
 * Runs `import FILE [--after LINE]`: checks all lines, then adds the pets in batches.
 *
 * @throws Refusal if the file is not valid
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
    refuse(`${setting.from} ${setting.text} would lose the imported pets; use file:PATH`);

  const after = readWholeNumber(settings.get('--after'), 0, Number.MAX_SAFE_INTEGER);
  const file = await readWhole(path === '-' ? path : readPath(path, 'FILE'), after);

  let total = 0;
  let before = 0;

  try {
    for (const { drafts, done } of readBatches(file)) {
      showBar('checking', done, countOf((total += drafts.length), 'pet'));
      // Listeners to signals run between batches.
      await setImmediate();
    }

    const source = { digest: digestOf(file), startDigests: startDigestsOf(file) };
    const target = await named.openImport(source, logTo(process.stderr));
    before = target.start;
    await addAll(file, total, target).finally(() => target.close());
  } finally {
    showProgress('');
  }

  const ignored = JSON.stringify([...file.ignored]).slice(1, -1);
  if (ignored !== '')
    printNotice(`ignored unknown members: ${ignored}; a pet has ${members.join(', ')}`);

  if (total === 0 && after === 0) printNotice(`${file.name} has no pets`);
  const added = `${countOf(total - before, 'pet')} added to ${named.text}`;
  if (before === 0) return print([added], added);
  await print([`${added}; ${before} of ${file.name} were already there`]);
};

/**
 * Reads and checks the file of `--seed`.
 *
 * @throws Refusal
 */
export async function readSeed({ text: path, from }: Setting): Promise<Seed> {
  const hint = `name a JSON Lines file of at most 16 MiB; \`${program} import\` takes longer files`;
  const bytes = await orRefuse(`${from} ${path} cannot be read`, hint, () =>
    readRegularFile(path, maxSeedBytes),
  );
  const file = draftFile(path, bytes, 0);

  const batches = [...readBatches(file)];
  const drafts = batches.flatMap((batch) => batch.drafts);
  return { path, drafts, source: batches.at(-1)?.startDigest() ?? digestOf(file) };
}

/**
 * Reads the whole file into memory, because all lines are checked before the first is added. A pipe
 * could not be read twice, and a file could change meanwhile.
 *
 * @throws Refusal
 */
async function readWhole(path: string, after: number): Promise<DraftFile> {
  const name = path === '-' ? 'standard input' : path;
  const tooLong = `${name} is longer than 2 GiB; split it`;
  if (path === '-' && process.stdin.isTTY)
    printNotice('reading pets from the terminal; end them with Ctrl-D');
  const readBytes = () => (path === '-' ? buffer(process.stdin) : readFileSync(path));
  const hint = 'name a JSON Lines file, or - for standard input';
  const bytes = await orRefuse(`${name} cannot be read`, hint, async () => {
    try {
      return await readBytes();
    } catch (error) {
      if (codeOf(error) === 'ERR_FS_FILE_TOO_LARGE') refuse(tooLong);
      throw error;
    }
  });
  if (bytes.length > maxFileBytes) refuse(tooLong);

  return draftFile(name, bytes, after);
}

/** @throws Refusal if the encoding is not UTF-8 */
function draftFile(name: string, bytes: Buffer, after: number): DraftFile {
  const encoding = otherEncoding(bytes);
  if (encoding !== undefined)
    refuse(`${name} is ${encoding}; convert it to UTF-8: \`iconv -f ${encoding} -t UTF-8\``);

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

/** Returns the digest that identifies a source: a file and the number of lines to skip. */
function digestOf({ bytes, after }: DraftFile): string {
  return createHash('sha256').update(bytes).update(`\n--after ${after}`).digest('hex');
}

/** Returns a hash to which the lines of the first pets of a file are added. */
function startHash({ after }: DraftFile): Hash {
  return createHash('sha256').update(`--after ${after}\n`);
}

/** Returns a function that digests the first pets of a file, to find an earlier import (F11). */
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
 * Adds the pets that the target lacks, in batches. The target stores how many pets of the file it
 * has, so that the same command resumes an import that was interrupted.
 */
async function addAll(file: DraftFile, total: number, target: ImportTarget) {
  let addedCount = target.start;

  const interrupt = (_: unknown, signal: number) => {
    showProgress('');
    const added = `at least ${addedCount} of ${total} pets were added`;
    printNotice(`interrupted: ${added}; run the same command again to resume`);
    // Shells report the end by a signal as 128 plus its number.
    process.exit(128 + signal);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, interrupt);

  let readCount = 0;

  for (const { drafts, done, startDigest } of readBatches(file)) {
    readCount += drafts.length;
    const missing = readCount - addedCount;
    if (missing <= 0) continue;

    try {
      addedCount = await target.add(drafts.slice(drafts.length - missing), startDigest());
      // The count falls after a failover to a standby that lagged. Later batches would leave a gap.
      if (!(addedCount >= readCount))
        throw new PetstoreError('storage_unusable', 'The storage has lost pets of this import.');
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      const added = `At least ${addedCount} of ${total} pets were added, then: ${error.message}`;
      throw new PetstoreError(
        'storage_unusable',
        `${added} Run the same command again to resume.`,
        { cause: error },
      );
    }

    showBar('adding', done, countOf(addedCount, 'pet'));
  }
}

/** A line that is not blank. */
interface PetLine {
  /** A byte string without white space at its end. */
  readonly text: string;
  /** The line number in the file, from 1. */
  readonly number: number;
}

const byteOrderMark = '\xef\xbb\xbf';
const blankLine = new RegExp(`^(?:${byteOrderMark})?[ \\t\\r]*$`);

/**
 * Yields the lines of a file, grouped in batches. `done` is the part of the file that was read,
 * from 0 to 1.
 *
 * @throws Refusal if a line is too long, or at the end if the file has fewer lines than `after`
 */
function* linesOf({ name, bytes, after }: DraftFile) {
  let number = 1;
  const start = bytes.toString('latin1', 0, 3) === byteOrderMark ? 3 : 0;

  for (let at = start, end: number; at < bytes.length; at = end + 1) {
    const within = bytes.lastIndexOf('\n', at + batchBytes);
    const lineEnd = within >= at ? within : bytes.indexOf('\n', at + batchBytes);
    end = Math.min(lineEnd < 0 ? bytes.length : lineEnd, at + batchBytes + maxLineBytes + 1);

    const lines: PetLine[] = [];
    // `parseJson` takes byte strings, so that it can report invalid UTF-8.
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
 * Yields the pets of a file in batches. `startDigest` returns the digest of all pets up to the end
 * of the batch.
 *
 * @throws Refusal with the line number if a line is not valid, or as `linesOf`
 */
function* readBatches(file: DraftFile) {
  const hash = startHash(file);

  for (const { lines, done } of linesOf(file)) {
    const drafts = lines.map((line) => readDraft(line, file));
    hash.update(lines.map(({ text }) => `${text}\n`).join(''), 'latin1');
    yield { drafts, done, startDigest: () => hash.copy().digest('hex') };
  }
}

const members = petFields.map(({ name }) => name);

/**
 * Parses the pet of a line, and adds unknown members to `ignored`.
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

/** Returns the hint for a file that is not JSON Lines, such as an array or indented JSON. */
function jsonLinesHint(line: string): string {
  const filter = /^[ \t]*\[/.test(line) ? "'.[]'" : '.';
  return `Write each pet on a line of its own: \`jq -c ${filter}\` does that.`;
}
