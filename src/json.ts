/**
 * Owns reading JSON text to values: strict RFC 8259 and RFC 7493 (I-JSON), exact numbers, byte offsets (C26).
 * Knows nothing of the fields that a value should have.
 *
 * Text arrives as a *byte string*: one char (U+0000 to U+00FF) is one byte of UTF-8. A position in it is a byte
 * offset, its length is a Content-Length, and what is pure ASCII needs no decoding at all.
 */
import { decodeJsonString, invalidJson } from './json-string.js';

/** A number as it was written, because a double would round an int64 past 2^53 (C23). */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An object is a Map, so `__proto__` is a name like any other. */
export type JsonValue = null | boolean | string | JsonNumber | readonly JsonValue[] | ReadonlyMap<string, JsonValue>;

/** The deepest nesting of arrays and objects that is read (C26). */
const maxDepth = 64;

/** Turns any text into its byte string; a lone surrogate becomes U+FFFD, as in every UTF-8 encoder. */
export function toByteString(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/**
 * Reads one JSON text.
 * @throws PetstoreError `invalid_json` with the byte offset of the first thing that is wrong.
 */
export function parseJson(byteString: string): JsonValue {
  return new Reader(byteString).document();
}

class Reader {
  readonly #bytes: string;
  #at = 0;

  constructor(byteString: string) {
    this.#bytes = byteString;
    if (byteString.startsWith('\u00ef\u00bb\u00bf')) this.#at = 3;
  }

  document(): JsonValue {
    const value = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.#bytes.length) this.#fail('unexpected text after the value');
    return value;
  }

  #value(depth: number): JsonValue {
    switch (this.#skipSpace()) {
      case 0x7b:
        return this.#object(depth + 1);
      case 0x5b:
        return this.#array(depth + 1);
      case 0x22:
        return this.#string();
      case 0x74:
        return this.#word('true', true);
      case 0x66:
        return this.#word('false', false);
      case 0x6e:
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #object(depth: number): JsonValue {
    this.#open(depth);
    const members = new Map<string, JsonValue>();
    if (this.#skipSpace() === 0x7d) {
      this.#at++;
      return members;
    }
    for (;;) {
      if (this.#skipSpace() !== 0x22) this.#fail('expected a member name');
      const nameAt = this.#at;
      const name = this.#string();
      if (members.has(name)) this.#fail('a member name that stands twice', nameAt);
      if (this.#skipSpace() !== 0x3a) this.#fail('expected ":"');
      this.#at++;
      members.set(name, this.#value(depth));
      const next = this.#skipSpace();
      if (next === 0x7d) break;
      if (next !== 0x2c) this.#fail('expected "," or "}"');
      this.#at++;
    }
    this.#at++;
    return members;
  }

  #array(depth: number): JsonValue {
    this.#open(depth);
    const items: JsonValue[] = [];
    if (this.#skipSpace() === 0x5d) {
      this.#at++;
      return items;
    }
    for (;;) {
      items.push(this.#value(depth));
      const next = this.#skipSpace();
      if (next === 0x5d) break;
      if (next !== 0x2c) this.#fail('expected "," or "]"');
      this.#at++;
    }
    this.#at++;
    return items;
  }

  #open(depth: number): void {
    if (depth > maxDepth) this.#fail(`nesting over ${maxDepth}`);
    this.#at++;
  }

  #string(): string {
    const start = this.#at + 1;
    for (let at = start; at < this.#bytes.length; at++) {
      const byte = this.#bytes.charCodeAt(at);
      if (byte === 0x22) {
        this.#at = at + 1;
        return this.#bytes.slice(start, at);
      }
      if (byte === 0x5c || byte >= 0x80 || byte < 0x20) break;
    }
    const { text, end } = decodeJsonString(this.#bytes, start);
    this.#at = end;
    return text;
  }

  #number(): JsonNumber {
    const start = this.#at;
    if (this.#byte() === 0x2d) this.#at++;
    if (this.#byte() === 0x30) this.#at++;
    else this.#digits(start);
    if (this.#byte() === 0x2e) {
      this.#at++;
      this.#digits(start);
    }
    if ((this.#byte() | 0x20) === 0x65) {
      this.#at++;
      if (this.#byte() === 0x2b || this.#byte() === 0x2d) this.#at++;
      this.#digits(start);
    }
    return new JsonNumber(this.#bytes.slice(start, this.#at));
  }

  #digits(numberStart: number): void {
    const start = this.#at;
    while (this.#byte() >= 0x30 && this.#byte() <= 0x39) this.#at++;
    if (this.#at === start) this.#fail(start === numberStart ? 'expected a value' : 'expected a digit');
  }

  #word<Value extends null | boolean>(word: string, value: Value): Value {
    for (const letter of word) {
      if (this.#bytes[this.#at] !== letter) this.#fail('expected a value');
      this.#at++;
    }
    return value;
  }

  /** Skips white space and answers the byte behind it, NaN at the end. */
  #skipSpace(): number {
    for (;;) {
      const byte = this.#byte();
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
      this.#at++;
    }
  }

  #byte(): number {
    return this.#bytes.charCodeAt(this.#at);
  }

  #fail(problem: string, at = this.#at): never {
    throw invalidJson(at < this.#bytes.length ? problem : 'the text ends too early', at);
  }
}
