/** Owns texts that are parts of longer ones, as those of a file are of what was read of it at once. Does not read them. */

/** Texts by position, each cut out of its source when it is asked for: to make a million of them would take half of a start. */
export class Cuttings {
  readonly #sources: string[] = [];
  #lastSource: string | undefined;
  /** Three numbers a text: which source, where it begins there, where it ends. */
  #cuts = new Uint32Array(3 * 1024);
  #count = 0;

  /**
   * Adds what stands in a source from `from` to `to`, behind all others. A source, a byte string in one piece of memory,
   * is kept once, whole, for those that are added from it one behind the other.
   */
  push(source: string, from: number, to: number): void {
    if (source !== this.#lastSource) {
      this.#sources.push(source);
      this.#lastSource = source;
    }
    const at = 3 * this.#count++;
    if (at === this.#cuts.length) {
      const grown = new Uint32Array(2 * at);
      grown.set(this.#cuts);
      this.#cuts = grown;
    }
    this.#cuts[at] = this.#sources.length - 1;
    this.#cuts[at + 1] = from;
    this.#cuts[at + 2] = to;
  }

  /** The text at a position, which must be one. */
  at(position: number): string {
    const at = 3 * position;
    const source = this.#sources[this.#cuts[at] ?? 0] ?? '';
    return source.slice(this.#cuts[at + 1], this.#cuts[at + 2]);
  }
}
