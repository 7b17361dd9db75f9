/** What a part of the benchmark is, and what it hands over. Knows no server. */
import type { Load } from './load.js';
import type { Session } from './session.js';

/** A table as people read it. */
export interface Table {
  readonly title: string;
  /** What must be known to read it: sentences. */
  readonly note?: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A picture, named without its ending. */
export interface Picture {
  readonly name: string;
  readonly svg: string;
}

/** What a part has measured. */
export interface Measurement {
  readonly tables: readonly Table[];
  readonly pictures?: readonly Picture[];
  /** Why something could not be measured here: a sentence without its full stop. */
  readonly missing?: string;
}

/** What a part works with. */
export interface Bench {
  readonly session: Session;
  readonly load: Load;
  /** How many slices of each server count. */
  readonly rounds: number;
  /** Says what is being done, for whoever waits. */
  readonly say: (what: string) => void;
}

/** One question that the benchmark answers. */
export interface Part {
  readonly name: string;
  readonly title: string;
  /** It runs only where it is named. */
  readonly isExtra?: true;
  readonly measure: (bench: Bench) => Promise<Measurement>;
}
