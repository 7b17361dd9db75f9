/** A place in a text. Both numbers are counted from 0. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

export interface StrykerMutant {
  readonly fileName: string;
  readonly mutatorName: string;
  readonly location: { readonly start: Place; readonly end: Place };
  /** The text in place of the original. */
  readonly replacement: string;
}

/** Returns the mutants of these files. */
export function mutantsOf(
  files: readonly { readonly name: string; readonly content: string; readonly mutate: true }[],
): Promise<readonly StrykerMutant[]>;
