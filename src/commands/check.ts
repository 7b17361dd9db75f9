/** Owns the `check` command: a storage file's contents and soundness in words. Knows not how a file is read. */
import { checkFile, PetstoreError, type FileReport } from '../index.js';
import { Refusal } from '../server/refusal.js';
import { printable } from '../server/printable.js';

/**
 * Runs `check FILE`; answers 0 where a server would start on the file, 3 where it would refuse to.
 * @throws Refusal for a file that cannot be read.
 */
export async function check(operands: readonly string[]): Promise<number> {
  const [path] = operands;
  if (path === undefined || operands.length > 1) throw new Refusal('`check` needs one FILE, such as data/pets.jsonl');
  const report = await read(path);
  process.stdout.write(`${[verdictOn(path, report), ...countsOf(report)].map(printable).join('\n')}\n`);
  if (report.verdict !== 'damaged') return 0;
  process.stderr.write(`${printable(`${path} ${placeOf(report)}; a start refuses this file: put a backup in its place, or mend the line`)}\n`);
  return 3;
}

async function read(path: string): Promise<FileReport> {
  try {
    return await checkFile(path);
  } catch (error) {
    // As any file that was named and cannot be read: the mistake is on the command line.
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

function countsOf({ animals, byStatus, commits, bytes, committedBytes }: FileReport): readonly string[] {
  const { none, ...statuses } = byStatus;
  const each = [...Object.entries(statuses), ['without a status', none]].map(([name, count]) => `${count} ${name}`);
  return [`  animals  ${animals} (${each.join(', ')})`, `  commits  ${commits}`, `  bytes    ${bytes} (${committedBytes} committed)`];
}
