/** Owns a piece of a journal in memory: its bytes, and the text that outlasts them. Knows of lines only where they end. */
import { isUtf8 } from 'node:buffer';
import { pieceBytes } from './pieces.js';

/** Bytes that will be used again, and what is found out for all of them at once: for each line alone it costs far more. */
export class Piece {
  readonly bytes: Buffer;
  #text: string | undefined;
  #utf8To: number | undefined;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /**
   * All of it as one byte string; a text that is cut out of it takes hardly any memory, and keeps all of it there. Undefined
   * for a piece that has grown for one long line, which may be longer than a string can be.
   */
  get text(): string | undefined {
    if (this.bytes.length <= pieceBytes) this.#text ??= this.bytes.toString('latin1');
    return this.#text;
  }

  /** Whether the bytes of a line are UTF-8. */
  isUtf8(from: number, to: number): boolean {
    this.#utf8To ??= this.#wholeLinesInUtf8();
    return to <= this.#utf8To || isUtf8(this.bytes.subarray(from, to));
  }

  /** Where the whole lines end, if all of them are UTF-8, else 0. */
  #wholeLinesInUtf8(): number {
    const end = this.bytes.lastIndexOf(0x0a) + 1;
    return isUtf8(this.bytes.subarray(0, end)) ? end : 0;
  }
}
