/**
 * Strict JSON (RFC 8259, RFC 7493) of *byte strings*, whose characters are bytes of UTF-8; exact
 * int64s (C23).
 */
import { isUtf8 } from 'node:buffer';
import { PetstoreError } from './errors.js';

/** A number as it was written: a double would round an int64 past 2^53 (C23). */
export class JsonNumber {
  /** As JSON writes it. */
  readonly text: string;

  /** The text is not checked. */
  constructor(text: string) {
    this.text = text;
  }
}

/** An object is a Map, so `__proto__` is a name like any other. */
export type JsonValue =
  | null
  | boolean
  | string
  | JsonNumber
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

const maxDepth = 64;
/** In a body (C60): each may take some 300 bytes, a hundred times as many as it has in the text. */
export const maxBodyValues = 65_536;
const unicodeEscape = /\\u(?:[Dd][89ABab][0-9A-Fa-f]{2}\\u)?[0-9A-Fa-f]{4}/y;
/**
 * Of a number that lacks a digit it takes what is before that: the fault is there, or the text ends
 * too early.
 */
const number = /-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[Ee][+-]?[0-9]*)?)?/y;

declare const bytes: unique symbol;

/**
 * Bytes, each of them a character: what goes in and out of sockets and files. A text becomes one by
 * `toByteString`.
 */
export type ByteString = string & { readonly [bytes]: true };

/** The byte string of a text; a lone surrogate becomes U+FFFD. */
export function toByteString(text: string): ByteString {
  return asByteString(Buffer.from(text, 'utf8').toString('latin1'));
}

/**
 * For what was read from bytes, or joined of byte strings: it is one already, and nothing is
 * checked.
 */
export function asByteString(text: string): ByteString {
  return text as ByteString;
}

/** Whether a string is the bytes of UTF-8, and not a text that somebody forgot to make bytes of. */
export function isUtf8String(text: string): boolean {
  if (/^[\0-\x7f]*$/.test(text)) return true;
  return /^[\0-\xff]*$/.test(text) && isUtf8(Buffer.from(text, 'latin1'));
}

/**
 * Reads one JSON text. With {@link maxBodyValues} the memory for it is a small multiple of the
 * text's length (C60).
 * @throws PetstoreError `invalid_json` with the byte offset of the first fault.
 */
export function parseJson(byteString: string, maxValues = Number.POSITIVE_INFINITY): JsonValue {
  return new Reader(byteString, maxValues).document();
}

class Reader {
  readonly #bytes: string;
  readonly #maxValues: number;
  #values = 0;
  #at: number;

  constructor(byteString: string, maxValues: number) {
    this.#bytes = byteString;
    this.#maxValues = maxValues;
    this.#at = byteString.startsWith('\u00ef\u00bb\u00bf') ? 3 : 0;
  }

  document(): JsonValue {
    const value = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.#bytes.length) this.#fail('unexpected text after the value');
    return value;
  }

  #value(depth: number): JsonValue {
    const byte = this.#skipSpace();
    if (++this.#values > this.#maxValues) this.#fail(`over ${this.#maxValues} values`);
    if (byte === 0x7b) return this.#object(depth + 1);
    if (byte === 0x5b) return this.#array(depth + 1);
    if (byte === 0x22) return this.#string();
    if (byte === 0x74) return this.#word('true', true);
    if (byte === 0x66) return this.#word('false', false);
    return byte === 0x6e ? this.#word('null', null) : this.#number();
  }

  #object(depth: number): JsonValue {
    const members = new Map<string, JsonValue>();
    for (
      let isMore = this.#begins(depth, 0x7d);
      isMore;
      isMore = this.#goesOn(0x7d, 'expected "," or "}"')
    ) {
      if (this.#skipSpace() !== 0x22) this.#fail('expected a member name');
      const nameAt = this.#at;
      const name = this.#string();
      if (members.has(name)) this.#fail('a member name that stands twice', nameAt);
      if (this.#skipSpace() !== 0x3a) this.#fail('expected ":"');
      this.#at++;
      members.set(name, this.#value(depth));
    }
    return members;
  }

  #array(depth: number): JsonValue {
    const items: JsonValue[] = [];
    for (
      let isMore = this.#begins(depth, 0x5d);
      isMore;
      isMore = this.#goesOn(0x5d, 'expected "," or "]"')
    )
      items.push(this.#value(depth));
    return items;
  }

  /** Enters an array or object; whether it has an item. */
  #begins(depth: number, close: number): boolean {
    if (depth > maxDepth) this.#fail(`nesting over ${maxDepth}`);
    this.#at++;
    if (this.#skipSpace() !== close) return true;
    this.#at++;
    return false;
  }

  /** Goes to the next item or past the end; whether there is one. */
  #goesOn(close: number, expected: string): boolean {
    const next = this.#skipSpace();
    if (next !== close && next !== 0x2c) this.#fail(expected);
    this.#at++;
    return next === 0x2c;
  }

  /**
   * Checks all of a string, and only then decodes it, at once: text that grows by characters takes
   * 64 bytes each.
   */
  #string(): string {
    const from = this.#at + 1;
    let isEscaped = false;
    let isAscii = true;
    for (this.#at = from; ; ) {
      let byte = this.#bytes.charCodeAt(this.#at);
      while (byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c)
        byte = this.#bytes.charCodeAt(++this.#at);
      if (byte === 0x22) break;
      if (byte === 0x5c) this.#skipEscape();
      else this.#skipCharacter(byte);
      if (byte === 0x5c) isEscaped = true;
      else isAscii = false;
    }
    const bytes = this.#bytes.slice(from, this.#at++);
    const text = isAscii ? bytes : Buffer.from(bytes, 'latin1').toString();
    return isEscaped ? JSON.parse(`"${text}"`) : text;
  }

  /** An escape, or the two of a surrogate pair. */
  #skipEscape(): void {
    const start = this.#at;
    if (/^["\\/bfnrt]$/.test(this.#bytes.charAt(start + 1))) {
      this.#at += 2;
      return;
    }
    const text = this.#token(unicodeEscape);
    if (text === '') {
      const isCutOff = /^\\(?:u[0-9A-Fa-f]{0,3})?$/.test(this.#bytes.slice(start, start + 6));
      this.#fail('an unknown escape', isCutOff ? this.#bytes.length : start);
    }
    const decoded: string = JSON.parse(`"${text}"`);
    if (!decoded.isWellFormed()) this.#fail('a lone surrogate', start);
  }

  /**
   * One of two bytes or more, by the table of RFC 3629 section 4; past the end `lead` is NaN: no
   * comparison holds.
   */
  #skipCharacter(lead: number): void {
    if (lead < 0x20) this.#fail('a control character that is not escaped');
    const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length === 0) this.#fail('invalid UTF-8');
    for (let i = 1; i < length; i++) {
      const byte = this.#bytes.charCodeAt(this.#at + i);
      const low = i > 1 ? 0x80 : lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
      const high = i > 1 ? 0xbf : lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
      if (!(byte >= low && byte <= high)) this.#fail('invalid UTF-8');
    }
    this.#at += length;
  }

  #number(): JsonNumber {
    const text = this.#token(number);
    if (!/[0-9]$/.test(text)) this.#fail(text === '' ? 'expected a value' : 'expected a digit');
    return new JsonNumber(text);
  }

  /** Reads as far as a pattern goes. */
  #token(pattern: RegExp): string {
    const start = this.#at;
    pattern.lastIndex = start;
    if (pattern.test(this.#bytes)) this.#at = pattern.lastIndex;
    return this.#bytes.slice(start, this.#at);
  }

  #word(word: string, value: null | boolean): JsonValue {
    for (const letter of word)
      if (this.#bytes[this.#at++] !== letter) this.#fail('expected a value', this.#at - 1);
    return value;
  }

  /** The byte after any white space, NaN at the end. */
  #skipSpace(): number {
    let byte = this.#bytes.charCodeAt(this.#at);
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09)
      byte = this.#bytes.charCodeAt(++this.#at);
    return byte;
  }

  #fail(problem: string, at = this.#at): never {
    const what = at < this.#bytes.length ? problem : 'the text ends too early';
    throw new PetstoreError('invalid_json', `Not valid JSON: ${what}, at byte ${at}.`);
  }
}

export const int64Max = 2n ** 63n - 1n;

export function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

/** The int64 of a path or a query (C2, C10); undefined for all else, `-0` and 2^63 too. */
export function parseInt64(text: string): bigint | undefined {
  if (!/^(?:0|-?[1-9][0-9]{0,18})$/.test(text)) return undefined;
  const value = BigInt(text);
  return isInt64(value) ? value : undefined;
}

/**
 * The int64 that a JSON number is (C22), if any; neither `1e400` nor a million digits become a
 * bigint (C24).
 */
export function int64OfJsonNumber(number: string): bigint | undefined {
  if (number.length < 16 && /^-?[0-9]+$/.test(number)) return BigInt(Number(number));
  const grammar = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE](.+))?$/;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = grammar.exec(number) ?? [];
  const digits = whole + fraction;
  let to = digits.length;
  while (digits[to - 1] === '0') to--;
  if (to === 0) return 0n;
  const significant = digits.slice(0, to).replace(/^0+/, '');
  const zeros = Number(exponent) - fraction.length + digits.length - to;
  if (zeros < 0 || significant.length + zeros > 19) return undefined;
  const value = BigInt(sign + significant + '0'.repeat(zeros));
  return isInt64(value) ? value : undefined;
}
