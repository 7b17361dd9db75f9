/** Generates damaged copies of a file, as bytes. */

/** A damaged copy of a file, and a description of the damage. */
export interface Damage {
  readonly what: string;
  readonly bytes: Buffer;
}

/** Yields the file cut at each byte. */
export function* cuts(bytes: Buffer): Generator<Damage> {
  for (let size = 0; size <= bytes.length; size++)
    yield { what: `cut at ${size}`, bytes: bytes.subarray(0, size) };
}

/** Returns the file with a bit inverted; bits are counted from the start of the file. */
export function flip(bytes: Buffer, bit: number): Damage {
  const flipped = Buffer.from(bytes);
  flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
  return { what: `bit ${bit & 7} of byte ${bit >> 3}`, bytes: flipped };
}

/** Yields the file with each bit inverted in turn. */
export function* flips(bytes: Buffer): Generator<Damage> {
  for (let bit = 0; bit < 8 * bytes.length; bit++) yield flip(bytes, bit);
}

/** Yields the file with each block of `size` bytes set to zero in turn. */
export function* zeros(bytes: Buffer, size: number): Generator<Damage & { readonly from: number }> {
  for (let from = 0; from < bytes.length; from += size) {
    const zeroed = Buffer.from(bytes).fill(0, from, Math.min(from + size, bytes.length));
    yield { what: `${size} zeros from ${from}`, bytes: zeroed, from };
  }
}

/** Yields the file with each line removed, doubled, or swapped with each later line. */
export function* lines(bytes: Buffer): Generator<Damage> {
  const all = bytes.toString('latin1').split(/(?<=\n)/);
  const of = (what: string, changed: readonly string[]): Damage => ({
    what,
    bytes: Buffer.from(changed.join(''), 'latin1'),
  });
  for (const [index, line] of all.entries()) {
    const [before, after] = [all.slice(0, index), all.slice(index + 1)];
    yield of(`line ${index + 1} removed`, [...before, ...after]);
    yield of(`line ${index + 1} doubled`, [...before, line, line, ...after]);
    for (const [other, theirs] of after.entries())
      yield of(`lines ${index + 1} and ${index + 2 + other} swapped`, [
        ...before,
        theirs,
        ...after.with(other, line),
      ]);
  }
}
