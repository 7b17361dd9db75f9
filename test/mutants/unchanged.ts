/**
 * Mutants that change nothing that anybody is promised, each with why. A text that the source no
 * longer has fails the run.
 */
export interface Unchanged {
  /** Below src. */
  readonly file: string;
  /** Stands once in the file. */
  readonly text: string;
  /** What the mutant makes of it. */
  readonly becomes: string;
  readonly why: string;
}

export const unchanged: readonly Unchanged[] = [];
