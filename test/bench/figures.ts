/**
 * Owns measuring: what a part of the benchmark is, one slice of one server, many interleaved, and
 * what is made of them. Knows no operation by name.
 */
import type { Stretch } from '../support/at-end.js';
import type { Askers, Done, Load } from './load.js';
import type { Operation } from './operations.js';
import type { Table } from './report.js';
import type { Server } from './servers.js';

/** What a measurement works with. */
export interface Bench {
  /** What a measurement starts ends with this. */
  readonly stretch: Stretch;
  readonly load: Load;
  /** How many slices of each server count. */
  readonly rounds: number;
  /** Whether only the way is tried and the figures are worth nothing: all that can be left out is. */
  readonly isShort: boolean;
  /** Says what is being done, for whoever waits. */
  readonly say: (what: string) => void;
}

/**
 * One part of the benchmark: measurements that are made one behind the other. What one has started
 * has ended before the next.
 */
export type Part = readonly ((bench: Bench) => Promise<Table | readonly Table[]>)[];

/** What one slice of time says of a server. */
interface Slice extends Omit<Done, 'requests'> {
  /** Processor time of the server for each request, in microseconds. */
  readonly cpuUs: number;
}

/** The medians of a server's slices. */
export interface Figures extends Slice {
  /** The server's. */
  readonly name: string;
  /**
   * Processor time of the reference for each request, by this server's: above 1 is better. Median
   * of all rounds.
   */
  readonly ratio: number;
  /** The smallest and the largest of all rounds. */
  readonly ratioRange: readonly [number, number];
  /** Requests a second, by the reference's. Median of all rounds. */
  readonly paceRatio: number;
}

/** A server as far as it is measured, and what it is asked. */
export interface Turn {
  readonly server: Pick<Server, 'name' | 'url' | 'isBare'> & {
    readonly process: Pick<Server['process'], 'cpuSeconds'>;
  };
  readonly operation: Operation;
}

/** Sends an operation to a server for one slice. */
export async function slice(
  load: Load,
  { server, operation }: Turn,
  askers: Askers,
): Promise<Slice> {
  const expected = server.isBare ? { ...operation, status: 200 } : operation;
  const cpuBefore = server.process.cpuSeconds;
  const { requests, ...done } = await load.send(server, expected, askers);
  return { ...done, cpuUs: (1e6 * (server.process.cpuSeconds - cpuBefore)) / requests };
}

/**
 * Gives each server a slice in turn, for some rounds, behind one that is not counted: what else the
 * machine does then hits all alike. Every round begins one server further. The first is the
 * reference of the ratios.
 */
export async function interleaved(
  turns: readonly Turn[],
  askers: Askers,
  { load, rounds, isShort }: Pick<Bench, 'load' | 'rounds' | 'isShort'>,
): Promise<readonly Figures[]> {
  const tracks = turns.map((turn) => ({ turn, slices: Array<Slice>() }));
  if (!isShort) for (const turn of turns) await slice(load, turn, askers);
  for (let round = 0; round < rounds; round++) {
    const first = round % tracks.length;
    for (const { turn, slices } of [...tracks.slice(first), ...tracks.slice(0, first)])
      slices.push(await slice(load, turn, askers));
  }
  const reference = tracks[0]?.slices ?? [];
  return tracks.map(({ turn, slices }) => {
    const medianOf = (field: keyof Slice): number => median(slices.map((own) => own[field]));
    const paired = (of: (own: Slice, other: Slice) => number): readonly number[] =>
      slices.map((own, round) => of(own, reference[round] ?? own));
    const ratios = paired((own, other) => other.cpuUs / own.cpuUs);
    return {
      name: turn.server.name,
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

/** The middle of some numbers. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}
