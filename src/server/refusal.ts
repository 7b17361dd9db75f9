/** Owns saying no to the operator: the error that ends the process with one line and exit 2. Knows no option. */

/** Something that the operator gave cannot be used. The message is one sentence that names it and the mend. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** The first line of whatever was thrown: a syntax error or OpenSSL's text may go on for many. */
export function reasonOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.split('\n', 1)[0] ?? '';
}
