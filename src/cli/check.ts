/**
 * The `check` command: says what a storage file holds, and saves what is sound of a damaged one.
 */
import { checkFile, PetstoreError, salvageFile, type LeftOutLine } from '../index.js';
import { countOf, print, Refusal, say } from './output.js';
import type { Settings } from './settings.js';

/** Runs `check FILE [--salvage OUT]`; exits 3 where a start would be refused. @throws Refusal */
export async function check(
  settings: Settings,
  [path, ...others]: readonly string[],
): Promise<void> {
  if (path === undefined || others.length > 0)
    throw new Refusal('`check` needs one FILE, such as data/pets.jsonl');
  const outPath = settings.find('--salvage')?.text;
  await (outPath === undefined ? tell(path) : salvage(path, outPath)).catch((error: unknown) => {
    // A Refusal, for exit 2: another FILE or OUT must be named.
    throw error instanceof PetstoreError ? new Refusal(error.message) : error;
  });
}

async function tell(path: string): Promise<void> {
  const { verdict, problem, byStatus, ...counts } = await checkFile(path);
  const place = problem && `line ${problem.line}, byte ${problem.byte}: ${problem.what}`;
  const verdicts = {
    sound: 'is sound',
    torn: `has a torn tail: ${place}; a start moves its ${countOf(counts.tornBytes, 'byte')} to ${path}.torn-TIME`,
    damaged: `is damaged: ${place}; counted is what is under a sound commit before it`,
  };
  const { none, ...statuses } = byStatus;
  const each = Object.entries({ ...statuses, 'without a status': none }).map(
    ([name, count]) => `${count} ${name}`,
  );
  await print([
    `${path} ${verdicts[verdict]}`,
    `  animals  ${counts.animals} (${each.join(', ')})`,
    ...(counts.idempotencyKeys === 0
      ? []
      : [`  keys     ${countOf(counts.idempotencyKeys, 'idempotency key')}`]),
    `  commits  ${counts.commits}`,
    `  bytes    ${counts.bytes} (${counts.committedBytes} committed)`,
  ]);
  if (verdict !== 'damaged') return;
  const mend = `put a backup in its place, or save what is sound by \`check ${path} --salvage OUT\``;
  say(`${path} ${place}; a start refuses this file: ${mend}`);
  process.exitCode = 3;
}

async function salvage(path: string, outPath: string): Promise<void> {
  const { animals, missing, leftOut } = await salvageFile(path, outPath);
  const ids = missing.map(({ from, to }) => range(from, to));
  await print([
    `${countOf(animals, 'animal')} of ${path} saved in ${outPath}`,
    ...rangesOf(leftOut).map((line) => `  left out  ${line}`),
    ...(ids.length === 0 ? [] : [`  missing   ids ${ids.join(', ')}`]),
  ]);
}

function rangesOf(leftOut: readonly LeftOutLine[]): readonly string[] {
  const ranges: { first: LeftOutLine; last: LeftOutLine }[] = [];
  for (const entry of leftOut) {
    const before = ranges.at(-1);
    // A commit and an idempotency record may stand between two of them; one saved between has a
    // commit of its own too.
    const most = entry.animal === undefined ? 1 : 3;
    if (before?.last.what === entry.what && entry.line - before.last.line <= most)
      before.last = entry;
    else ranges.push({ first: entry, last: entry });
  }
  return ranges.map(
    ({ first, last }) =>
      `line${first === last ? '' : 's'} ${range(first.line, last.line)}: ${first.what}`,
  );
}

function range(from: unknown, to: unknown): string {
  return from === to ? `${from}` : `${from} to ${to}`;
}
