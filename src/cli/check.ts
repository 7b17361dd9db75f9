/** Implements the `check` command, which reports on a storage file and salvages a damaged one. */
import { checkFile, PetstoreError, salvageFile, type LeftOutLine } from '../index.js';
import { countOf, print, printNotice, program, Refusal, refuse } from './output.js';
import { readPath } from './setting-text.js';
import type { Run } from './settings.js';

/**
 * Runs `check FILE [--salvage OUT]`. The exit code is 3 if the file is damaged.
 *
 * @throws Refusal
 */
export const run: Run = async (settings, [operand, ...others]) => {
  if (operand === undefined || others.length > 0)
    refuse('`check` needs one FILE, such as data/pets.jsonl');

  const path = readPath(operand, 'FILE');

  const outPath = settings.find('--salvage')?.text;
  await (outPath === undefined ? report(path) : salvage(path, outPath)).catch((error: unknown) => {
    // Exit code 2, because the operator must name another FILE or OUT.
    throw error instanceof PetstoreError ? new Refusal(error.message) : error;
  });
};

/** Prints what the file holds, and what a server would do about a problem in it. */
async function report(path: string) {
  const { verdict, problem, byStatus, ...counts } = await checkFile(path);
  const place = problem && `line ${problem.line}, byte ${problem.byte}: ${problem.what}`;
  const tornBytes = countOf(counts.tornBytes, 'byte');
  const verdicts = {
    sound: 'is sound',
    torn: `has a torn tail: ${place}; the next start moves ${tornBytes} to ${path}.torn-TIME`,
    damaged: `is damaged: ${place}; only the sound commits before it are counted`,
  };

  const { none, ...statuses } = byStatus;
  const each = Object.entries({ ...statuses, 'without a status': none }).map(
    ([name, count]) => `${count} ${name}`,
  );

  const keys = countOf(counts.idempotencyKeys, 'idempotency key');
  await print([
    `${path} ${verdicts[verdict]}`,
    `  pets     ${counts.animals} (${each.join(', ')})`,
    ...(counts.idempotencyKeys === 0 ? [] : [`  keys     ${keys}`]),
    `  commits  ${counts.commits}`,
    `  bytes    ${counts.bytes} (${counts.committedBytes} committed)`,
  ]);

  if (verdict !== 'damaged') return;

  // Standard output already names the place of the damage.
  const command = `${program} check ${path} --salvage OUT`;
  const hint = `restore a backup, or save the sound pets with \`${command}\``;
  printNotice(`no server starts with ${path}; ${hint}`);
  process.exitCode = 3;
}

/** Writes the sound pets to a new file, and prints what was left out. */
async function salvage(path: string, outPath: string) {
  const { animals, missing, leftOut } = await salvageFile(path, outPath);
  const ids = missing.map(({ from, to }) => range(from, to));

  await print([
    `${countOf(animals, 'pet')} of ${path} saved in ${outPath}`,
    ...rangesOf(leftOut).map((line) => `  left out  ${line}`),
    ...(ids.length === 0 ? [] : [`  missing   ids ${ids.join(', ')}`]),
  ]);
}

/** Returns a text for each range of lines that were left out for the same reason. */
function rangesOf(leftOut: readonly LeftOutLine[]): readonly string[] {
  const ranges: { readonly first: LeftOutLine; last: LeftOutLine }[] = [];

  for (const entry of leftOut) {
    const before = ranges.at(-1);
    // Between two pets that were left out there may be a commit and an idempotency record. A saved
    // pet between them adds at least two lines, its own and a commit.
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
