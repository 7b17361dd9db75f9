/**
 * Owns what the figures depend on: machine, Node, time, and what else ran meanwhile. Knows no part.
 */
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { pinning } from './servers.js';

/** Looks at the machine from now on; what it answers tells in sentences how quiet that was. */
export function watchMachine(loadName: string): () => string {
  const startedAt = performance.now();
  const before = processorTimes();
  return () => {
    const processor = cpus()[0]?.model.trim() ?? 'unknown processor';
    const gigabytes = Math.round(totalmem() / 2 ** 30);
    const now = processorTimes();
    const stolen = (100 * (now.stolen - before.stolen)) / (now.all - before.all);
    const minutes = (performance.now() - startedAt) / 60_000;
    return (
      `${minutes.toFixed(1)} minutes on ${cpus().length} cores (${processor}), ${gigabytes} GiB, Linux ${release()}; ` +
      `${loadName}, ${pinning}; ${stolen.toFixed(1)} % of the processor time stolen by other machines, ` +
      `load average ${loadavg()[0]?.toFixed(1)} at the end, of which the benchmark itself makes up to 2.0.`
    );
  };
}

/** proc(5): the eighth figure is what the hypervisor gave to others. */
function processorTimes(): { readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const times = line.split(/\s+/).slice(1, 9).map(Number);
  return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) };
}
