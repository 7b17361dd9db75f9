/** What a part of the benchmark is, and what it hands over. Knows no server. */
import type { Stretch } from '../support/at-end.js';
import type { Load } from './load.js';
import type { Table } from './report.js';

/** What a part works with. */
export interface Bench {
  /** What it starts ends with this at the latest. */
  readonly stretch: Stretch;
  readonly load: Load;
  /** How many slices of each server count. */
  readonly rounds: number;
  /** Whether only the way is tried and the figures are worth nothing: all that can be left out is. */
  readonly isShort: boolean;
  /** Says what is being done, for whoever waits. */
  readonly say: (what: string) => void;
}

/** One question that the benchmark answers. */
export interface Part {
  readonly name: string;
  /** It runs only where it is named. */
  readonly isExtra?: true;
  readonly measure: (bench: Bench) => Promise<readonly Table[]>;
}
