/** What may happen to the bytes of a file. Knows no animals. */

/** A file that is damaged, and how. */
export interface Damage {
  readonly what: string;
  readonly bytes: Buffer;
}

/** Cut at every byte. */
export function* cuts(bytes: Buffer): Generator<Damage> {
  for (let size = 0; size <= bytes.length; size++)
    yield { what: `cut at ${size}`, bytes: bytes.subarray(0, size) };
}

/** One bit of it, counted from the first, is another. */
export function flip(bytes: Buffer, bit: number): Damage {
  const flipped = Buffer.from(bytes);
  flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
  return { what: `bit ${bit & 7} of byte ${bit >> 3}`, bytes: flipped };
}

/** Each bit of it is another. */
export function* flips(bytes: Buffer): Generator<Damage> {
  for (let bit = 0; bit < 8 * bytes.length; bit++) yield flip(bytes, bit);
}

/** So many bytes were never written, from each place where a stretch of that size begins. */
export function* zeros(bytes: Buffer, size: number): Generator<Damage & { readonly from: number }> {
  for (let from = 0; from < bytes.length; from += size) {
    const zeroed = Buffer.from(bytes).fill(0, from, Math.min(from + size, bytes.length));
    yield { what: `${size} zeros from ${from}`, bytes: zeroed, from };
  }
}

/** Each line taken out, doubled, or swapped with each behind it. */
export function* lines(bytes: Buffer): Generator<Damage> {
  const all = bytes.toString('latin1').split(/(?<=\n)/);
  const of = (what: string, changed: readonly string[]): Damage => ({
    what,
    bytes: Buffer.from(changed.join(''), 'latin1'),
  });
  for (const [index, line] of all.entries()) {
    const [before, behind] = [all.slice(0, index), all.slice(index + 1)];
    yield of(`line ${index + 1} removed`, [...before, ...behind]);
    yield of(`line ${index + 1} doubled`, [...before, line, line, ...behind]);
    for (const [other, theirs] of behind.entries())
      yield of(`lines ${index + 1} and ${index + 2 + other} swapped`, [
        ...before,
        theirs,
        ...behind.with(other, line),
      ]);
  }
}
