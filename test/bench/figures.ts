/**
 * Owns measuring: one slice of one server, many interleaved, and what is made of them. Knows no
 * operation by name.
 */
import type { Askers } from './load.js';
import type { Operation } from './operations.js';
import type { Bench } from './part.js';
import type { Server } from './servers.js';

/** What one slice of time says of a server. */
export interface Sample {
  readonly requestsPerSecond: number;
  /** Processor time of the server for each request, in microseconds. */
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The medians of a server's slices. */
export interface Figures extends Sample {
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

/** How long a slice is, in seconds: wrk knows no less. */
const sliceSeconds = 1;

/** A server as far as it is measured, and what it is asked. */
export interface Turn {
  readonly server: Pick<Server, 'name' | 'url' | 'isBare'> & {
    readonly process: Pick<Server['process'], 'cpuSeconds'>;
  };
  readonly operation: Operation;
}

/** Sends an operation to a server for one slice. */
export async function sample(
  { server, operation }: Turn,
  askers: Askers,
  { load }: Pick<Bench, 'load'>,
): Promise<Sample> {
  const expected = server.isBare ? { ...operation, status: 200 } : operation;
  const cpuBefore = server.process.cpuSeconds;
  const { requests, seconds, p50Ms, p99Ms } = await load.send(
    server,
    expected,
    askers,
    sliceSeconds,
  );
  const cpuUs = (1e6 * (server.process.cpuSeconds - cpuBefore)) / requests;
  return { requestsPerSecond: requests / seconds, cpuUs, p50Ms, p99Ms };
}

/**
 * Gives each server a slice in turn, for some rounds, behind one that is not counted: what else the
 * machine does then hits all alike. Every round begins one server further. The first is the
 * reference of the ratios. Answers figures by server's name.
 */
export async function interleaved(
  turns: readonly Turn[],
  askers: Askers,
  bench: Pick<Bench, 'load' | 'rounds' | 'isShort'>,
): Promise<ReadonlyMap<string, Figures>> {
  const tracks = turns.map((turn) => ({ turn, samples: new Array<Sample>() }));
  if (!bench.isShort) for (const turn of turns) await sample(turn, askers, bench);
  for (let round = 0; round < bench.rounds; round++) {
    const first = round % tracks.length;
    for (const { turn, samples } of [...tracks.slice(first), ...tracks.slice(0, first)])
      samples.push(await sample(turn, askers, bench));
  }
  const reference = tracks[0]?.samples ?? [];
  return new Map(
    tracks.map(({ turn, samples }) => {
      const medianOf = (field: keyof Sample): number => median(samples.map((own) => own[field]));
      const paired = (of: (own: Sample, other: Sample) => number): readonly number[] =>
        samples.map((own, round) => of(own, reference[round] ?? own));
      const ratios = paired((own, other) => other.cpuUs / own.cpuUs);
      const figures = {
        requestsPerSecond: medianOf('requestsPerSecond'),
        cpuUs: medianOf('cpuUs'),
        p50Ms: medianOf('p50Ms'),
        p99Ms: medianOf('p99Ms'),
        ratio: median(ratios),
        ratioRange: [Math.min(...ratios), Math.max(...ratios)] as const,
        paceRatio: median(paired((own, other) => own.requestsPerSecond / other.requestsPerSecond)),
      };
      return [turn.server.name, figures];
    }),
  );
}

/** The middle of some numbers. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}
