/** Owns the `check` command: a storage file's contents and soundness in words. Knows not how a file is read. */
import { checkFile, PetstoreError, salvageFile, type FileReport } from '../index.js';
import { print } from '../server/print.js';
import { Refusal } from '../server/refusal.js';
import { printable } from '../server/printable.js';
import type { Settings } from '../server/settings.js';

/**
 * Runs `check FILE [--salvage OUT]`; answers 0 where a server would start on the file, 3 where it would refuse to.
 * @throws Refusal for a file that cannot be read.
 */
export async function check(operands: readonly string[], settings: Settings): Promise<number> {
  const [path] = operands;
  if (path === undefined || operands.length > 1) throw new Refusal('`check` needs one FILE, such as data/pets.jsonl');
  const salvageTo = settings.find('salvage');
  if (salvageTo !== undefined) return salvage(path, salvageTo.text);
  const report = await read(() => checkFile(path));
  await print(`${[verdictOn(path, report), ...countsOf(report)].map(printable).join('\n')}\n`);
  if (report.verdict !== 'damaged') return 0;
  process.stderr.write(
    `${printable(`${path} ${placeOf(report)}; a start refuses this file: put a backup in its place, or save what is sound by \`check ${path} --salvage OUT\``)}\n`,
  );
  return 3;
}

/** Answers 0: whatever could be saved is saved, and what could not is said. */
async function salvage(path: string, outPath: string): Promise<number> {
  const { animals, missing, leftOut } = await read(() => salvageFile(path, outPath));
  const ranges = missing.map(({ from, to }) => (from === to ? `${from}` : `${from} to ${to}`));
  const lines = [
    `${animals} animals of ${path} are sound; they are in ${outPath}`,
    ...leftOut.map(({ line, what }) => `  left out  line ${line}: ${what}`),
    ...(ranges.length === 0 ? [] : [`  missing   ids ${ranges.join(', ')}`]),
  ];
  await print(`${lines.map(printable).join('\n')}\n`);
  return 0;
}

async function read<Report>(work: () => Promise<Report>): Promise<Report> {
  try {
    return await work();
  } catch (error) {
    // As any file that was named and cannot be used: the mistake is on the command line.
    if (error instanceof PetstoreError) throw new Refusal(error.message);
    throw error;
  }
}

function verdictOn(path: string, report: FileReport): string {
  switch (report.verdict) {
    case 'sound':
      return `${path} is sound`;
    case 'torn':
      return `${path} has a torn tail: ${placeOf(report)}; a start copies these ${report.tornBytes} bytes to ${path}.torn-TIME and cuts them off`;
    case 'damaged':
      return `${path} is damaged: ${placeOf(report)}; counted is what precedes it`;
  }
}

function placeOf({ problem }: FileReport): string {
  return problem === undefined ? '' : `line ${problem.line}, byte ${problem.byte}: ${problem.what}`;
}

function countsOf({ animals, byStatus, idempotencyKeys, commits, bytes, committedBytes }: FileReport): readonly string[] {
  const { none, ...statuses } = byStatus;
  const each = [...Object.entries(statuses), ['without a status', none]].map(([name, count]) => `${count} ${name}`);
  const keys = idempotencyKeys === 0 ? [] : [`  keys     ${idempotencyKeys} idempotency keys`];
  return [`  animals  ${animals} (${each.join(', ')})`, ...keys, `  commits  ${commits}`, `  bytes    ${bytes} (${committedBytes} committed)`];
}
