/** Measures servers in interleaved slices of time, and computes medians and ratios. */
import type { CleanupScope } from '../support/at-end.js';
import type { Clients, LoadResult, Load } from './load.js';
import type { Operation } from './operations.js';
import type { Table } from './report.js';
import type { Server } from './servers.js';

/** The tools and settings of a measurement. */
export interface Bench {
  /** Cleans up after a measurement. */
  readonly scope: CleanupScope;
  readonly load: Load;
  /** The number of slices of each server, not counting the warm-up. */
  readonly rounds: number;
  /** True for a quick trial whose figures mean nothing. */
  readonly isShort: boolean;
  /** Reports progress. */
  readonly say: (what: string) => void;
}

/** A part of the benchmark: measurements that run one after the other. */
export type Part = readonly ((bench: Bench) => Promise<Table | readonly Table[]>)[];

/** The figures of a server in one slice of time. */
interface Slice extends Omit<LoadResult, 'requests' | 'refused'> {
  /** Processor time of the server, in microseconds a request. */
  readonly cpuUs: number;
}

/** The medians of a server's slices. */
export interface Figures extends Slice {
  readonly name: string;
  /**
   * Processor time a request of the reference, divided by that of this server; above 1 is better.
   * The median of all rounds.
   */
  readonly ratio: number;
  /** The smallest and the largest ratio of all rounds. */
  readonly ratioRange: readonly [number, number];
  /** Requests a second, divided by those of the reference. The median of all rounds. */
  readonly paceRatio: number;
}

/** A server, and the operation that it is measured with. */
export interface Target {
  readonly server: Pick<Server, 'name' | 'url' | 'isBare'> & {
    readonly process: Pick<Server['process'], 'cpuSeconds'>;
  };
  readonly operation: Operation;
}

/** Sends an operation to a server for one slice. */
export async function slice(
  load: Load,
  { server, operation }: Target,
  clients: Clients,
): Promise<Slice> {
  const expected = server.isBare ? { ...operation, status: 200 } : operation;
  const cpuBefore = server.process.cpuSeconds;
  const { requests, refused: _, ...done } = await load.send(server, expected, clients);
  return { ...done, cpuUs: (1e6 * (server.process.cpuSeconds - cpuBefore)) / requests };
}

/**
 * Measures the targets in rounds of one slice each, after a warm-up slice, so that other work of
 * the machine affects all targets alike. Each round begins with another target. The first target is
 * the reference of the ratios.
 */
export async function interleaved(
  targets: readonly Target[],
  clients: Clients,
  { load, rounds, isShort }: Pick<Bench, 'load' | 'rounds' | 'isShort'>,
): Promise<readonly Figures[]> {
  const tracks = targets.map((target) => ({ target, slices: Array<Slice>() }));
  if (!isShort) for (const target of targets) await slice(load, target, clients);
  for (let round = 0; round < rounds; round++) {
    const first = round % tracks.length;
    for (const { target, slices } of [...tracks.slice(first), ...tracks.slice(0, first)])
      slices.push(await slice(load, target, clients));
  }
  const reference = tracks[0]?.slices ?? [];
  return tracks.map(({ target, slices }) => {
    const medianOf = (field: keyof Slice): number => median(slices.map((own) => own[field]));
    const paired = (of: (own: Slice, other: Slice) => number): readonly number[] =>
      slices.map((own, round) => of(own, reference[round] ?? own));
    const ratios = paired((own, other) => other.cpuUs / own.cpuUs);
    return {
      name: target.server.name,
      requestsPerSecond: medianOf('requestsPerSecond'),
      cpuUs: medianOf('cpuUs'),
      p50Ms: medianOf('p50Ms'),
      p99Ms: medianOf('p99Ms'),
      ratio: median(ratios),
      ratioRange: [Math.min(...ratios), Math.max(...ratios)] as const,
      paceRatio: median(paired((own, other) => own.requestsPerSecond / other.requestsPerSecond)),
    };
  });
}

/** Returns the median; NaN for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}
