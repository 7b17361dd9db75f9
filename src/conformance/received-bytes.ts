/** A queue of received bytes, read as byte strings. Appending takes amortized linear time. */
export class ReceivedBytes {
  #store = Buffer.alloc(0);
  #start = 0;
  #end = 0;

  /** The number of unread bytes. */
  get length(): number {
    return this.#end - this.#start;
  }

  /** Adds bytes at the end. */
  append(bytes: Uint8Array): void {
    if (this.#end + bytes.length > this.#store.length) this.#makeRoom(bytes.length);
    this.#store.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Returns the offset of an ASCII text at or after `from`; -1 if it is not there. */
  indexOf(text: string, from: number): number {
    return this.#store.subarray(this.#start, this.#end).indexOf(text, from, 'latin1');
  }

  /** Returns the bytes between two offsets, shared until the next `append`. */
  bytes(from: number, to: number): Uint8Array {
    return this.#store.subarray(this.#start + from, Math.min(this.#start + to, this.#end));
  }

  /** Returns the bytes between two offsets as a byte string. */
  text(from = 0, to = this.length): string {
    const end = Math.min(this.#start + to, this.#end);
    return this.#store.toString('latin1', this.#start + from, end);
  }

  /** Removes the first `count` bytes. */
  drop(count: number): void {
    this.#start += count;
    if (this.#start < this.#end) return;
    this.#store = Buffer.alloc(0);
    this.#start = 0;
    this.#end = 0;
  }

  #makeRoom(count: number): void {
    const store = Buffer.allocUnsafe(Math.max(2 * (this.length + count), 2 ** 12));
    store.set(this.bytes(0, this.length));
    this.#end = this.length;
    this.#start = 0;
    this.#store = store;
  }
}
