/** What a part of the benchmark is, and what it hands over. Knows no server. */
import type { Stretch } from '../support/at-end.js';
import type { Load } from './load.js';
import type { Table } from './report.js';

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
