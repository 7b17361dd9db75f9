/**
 * Owns what the figures depend on: machine, Node, date, and what else ran meanwhile. Knows no part.
 */
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { pinning } from './cores.js';

/** Looks at the machine from now on. */
export class Conditions {
  readonly #from = processorTimes();

  /** Sentences about the machine and how quiet it was. */
  describe(loadName: string): string {
    const processor = cpus()[0]?.model.trim() ?? 'unknown processor';
    const gigabytes = Math.round(totalmem() / 2 ** 30);
    const date = new Date().toLocaleDateString('en-GB', {
      day: 'numeric',
      month: 'long',
      year: 'numeric',
    });
    return [
      `${cpus().length} cores (${processor}), ${gigabytes} GiB, Linux ${release()}, Node ${process.versions.node}, ${date}.`,
      `Load generator: ${loadName}; ${pinning}.`,
      `Noise: ${this.#stolenPercent()} % of the processor time stolen by other machines, load average ${loadavg()[0]?.toFixed(1)} at the end, where the benchmark itself makes up to 2.0.`,
    ].join(' ');
  }

  #stolenPercent(): string {
    const now = processorTimes();
    return ((100 * (now.stolen - this.#from.stolen)) / (now.all - this.#from.all)).toFixed(1);
  }
}

/** proc(5): the eighth figure is what the hypervisor gave to others. */
function processorTimes(): { readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const times = line.split(/\s+/).slice(1, 9).map(Number);
  return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) };
}
