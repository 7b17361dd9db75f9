/**
 * Runs the parts of the benchmark that its arguments name, by default all except `lines` and
 * `before`. It prints the results and writes them to the file FIGURES. SHORT makes a quick trial,
 * whose figures mean nothing.
 */
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { callersEnvironment } from '../support/environment.js';
import { openLoad } from './load.js';
import { defaultParts, parts } from './parts.js';
import { keep, minutesSoFar, section, wrapped, type Table } from './report.js';
import { withCleanup, pinning } from './servers.js';

const { ROUNDS = '3', SHORT } = callersEnvironment;
const isShort = SHORT !== undefined;
const rounds = isShort ? 1 : Number(ROUNDS);
const named = process.argv.slice(2);
const measurements = (named.length > 0 ? named : Object.keys(defaultParts)).flatMap((name) => {
  const part = parts[name];
  if (part === undefined)
    throw new RangeError(`unknown part ${name}; the parts are ${Object.keys(parts).join(', ')}`);
  return part;
});

await withCleanup(async (scope) => {
  const load = openLoad(scope);
  const conditions = watchMachine(load.name);
  const say = (what: string): void => void process.stderr.write(`… ${what}\n`);
  const tables: Table[] = [];
  for (const measure of measurements) {
    const own = scope.within();
    const measured = [await measure({ scope: own, load, rounds, isShort, say })].flat();
    await own.end();
    tables.push(...measured);
    process.stdout.write(`\n${measured.map(section).join('\n\n')}\n`);
  }
  const run = `Bench of ${rounds} ${rounds === 1 ? 'round' : 'rounds'}, ${conditions()}`;
  process.stdout.write(`\n${wrapped(run)}\n`);
  keep(run, tables);
});

/** Begins to observe the machine. The result describes the time, the machine and its load. */
function watchMachine(loadName: string): () => string {
  const before = processorTimes();
  return () => {
    const processor = cpus()[0]?.model.trim() ?? 'unknown processor';
    const gigabytes = Math.round(totalmem() / 2 ** 30);
    const now = processorTimes();
    const stolen = (100 * (now.stolen - before.stolen)) / (now.all - before.all);
    return (
      `${minutesSoFar()}. Machine: ${cpus().length} cores (${processor}), ${gigabytes} GiB, Linux ${release()}. ` +
      `Load: ${loadName}, ${pinning}. Other virtual machines took ${stolen.toFixed(1)} % of the processor time. ` +
      `The load average at the end was ${loadavg()[0]?.toFixed(1)}, of which up to 2.0 is the benchmark itself.`
    );
  };
}

/**
 * Returns the processor time of all machines on this hardware, and the part of the other machines:
 * the eighth value, by proc(5).
 */
function processorTimes(): { readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const times = line.split(/\s+/).slice(1, 9).map(Number);
  return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) };
}
