/**
 * The `check` command: says what a storage file holds, and saves what is sound of a damaged one.
 */
import { checkFile, PetstoreError, salvageFile, type LeftOutLine } from '../index.js';
import { countOf, print, printNotice, program, Refusal, refuse } from './output.js';
import { readPath, type Run } from './settings.js';

/**
 * Runs `check FILE [--salvage OUT]`; the process exits by 3 where a start would refuse the file.
 *
 * @throws Refusal
 */
export const run: Run = async (settings, [operand, ...others]) => {
  if (operand === undefined || others.length > 0)
    refuse('`check` needs one FILE, such as data/pets.jsonl');

  const path = readPath(operand, 'FILE');

  const outPath = settings.find('--salvage')?.text;
  await (outPath === undefined ? report(path) : salvage(path, outPath)).catch((error: unknown) => {
    // The process exits by 2, as for a Refusal: another FILE or OUT must be named.
    throw error instanceof PetstoreError ? new Refusal(error.message) : error;
  });
};

/** Prints what the file holds, and what a start would do about its problem. */
async function report(path: string) {
  const { verdict, problem, byStatus, ...counts } = await checkFile(path);
  const place = problem && `line ${problem.line}, byte ${problem.byte}: ${problem.what}`;
  const tornBytes = countOf(counts.tornBytes, 'byte');
  const verdicts = {
    sound: 'is sound',
    torn: `has a torn tail: ${place}; a start moves its ${tornBytes} to ${path}.torn-TIME`,
    damaged: `is damaged: ${place}; counted is what is under a sound commit before it`,
  };

  const { none, ...statuses } = byStatus;
  const each = Object.entries({ ...statuses, 'without a status': none }).map(
    ([name, count]) => `${count} ${name}`,
  );

  const keys = countOf(counts.idempotencyKeys, 'idempotency key');
  await print([
    `${path} ${verdicts[verdict]}`,
    `  animals  ${counts.animals} (${each.join(', ')})`,
    ...(counts.idempotencyKeys === 0 ? [] : [`  keys     ${keys}`]),
    `  commits  ${counts.commits}`,
    `  bytes    ${counts.bytes} (${counts.committedBytes} committed)`,
  ]);

  if (verdict !== 'damaged') return;

  // The line on standard output has the place of the damage.
  const command = `${program} check ${path} --salvage OUT`;
  const hint = `put a backup in its place, or save what is sound by \`${command}\``;
  printNotice(`a start refuses ${path}: ${hint}`);
  process.exitCode = 3;
}

/** Saves what is sound in a new file, and prints what was left out. */
async function salvage(path: string, outPath: string) {
  const { animals, missing, leftOut } = await salvageFile(path, outPath);
  const ids = missing.map(({ from, to }) => range(from, to));

  await print([
    `${countOf(animals, 'animal')} of ${path} saved in ${outPath}`,
    ...rangesOf(leftOut).map((line) => `  left out  ${line}`),
    ...(ids.length === 0 ? [] : [`  missing   ids ${ids.join(', ')}`]),
  ]);
}

/** Lines that were left out, with one text for those that stand together for the same reason. */
function rangesOf(leftOut: readonly LeftOutLine[]): readonly string[] {
  const ranges: { readonly first: LeftOutLine; last: LeftOutLine }[] = [];

  for (const entry of leftOut) {
    const before = ranges.at(-1);
    // Between two animals that were left out a commit and an idempotency record may stand. An
    // animal that was saved between them has a commit of its own too.
    const mostLines = entry.animal === undefined ? 1 : 3;
    if (before?.last.what === entry.what && entry.line - before.last.line <= mostLines)
      before.last = entry;
    else ranges.push({ first: entry, last: entry });
  }

  return ranges.map(({ first, last }) => {
    const lines = first === last ? 'line' : 'lines';
    return `${lines} ${range(first.line, last.line)}: ${first.what}`;
  });
}

function range(from: unknown, to: unknown): string {
  return from === to ? `${from}` : `${from} to ${to}`;
}
