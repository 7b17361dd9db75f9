/**
 * Owns what the figures depend on: machine, Node, time, and what else ran meanwhile. Knows no part.
 */
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { pinning } from './servers.js';

/** Looks at the machine from now on. */
export class Conditions {
  readonly #loadName: string;
  readonly #startedAt = performance.now();
  readonly #from = processorTimes();

  constructor(loadName: string) {
    this.#loadName = loadName;
  }

  /** Sentences about the machine and how quiet it was. */
  describe(): string {
    const processor = cpus()[0]?.model.trim() ?? 'unknown processor';
    const gigabytes = Math.round(totalmem() / 2 ** 30);
    const now = processorTimes();
    const stolen = (100 * (now.stolen - this.#from.stolen)) / (now.all - this.#from.all);
    const minutes = (performance.now() - this.#startedAt) / 60_000;
    return (
      `${minutes.toFixed(1)} minutes on ${cpus().length} cores (${processor}), ${gigabytes} GiB, Linux ${release()}; ` +
      `${this.#loadName}, ${pinning}; ${stolen.toFixed(1)} % of the processor time stolen by other machines, ` +
      `load average ${loadavg()[0]?.toFixed(1)} at the end, of which the benchmark itself makes up to 2.0.`
    );
  }
}

/** proc(5): the eighth figure is what the hypervisor gave to others. */
function processorTimes(): { readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const times = line.split(/\s+/).slice(1, 9).map(Number);
  return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) };
}
