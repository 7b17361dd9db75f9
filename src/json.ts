/**
 * A strict JSON parser (RFC 8259, RFC 7493) for byte strings, with exact int64s (C23). A byte
 * string is a string whose characters are the bytes of UTF-8 text.
 */
import { isUtf8 } from 'node:buffer';
import { PetstoreError } from './errors.js';

/** A number with its digits, because a double would round an int64 beyond 2^53 (C23). */
export class JsonNumber {
  /** The number in JSON. */
  readonly text: string;

  /** @param text The number in JSON, which is not checked. */
  constructor(text: string) {
    this.text = text;
  }
}

/** A parsed value. An object is a Map, so that `__proto__` is an ordinary name. */
export type JsonValue =
  | null
  | boolean
  | string
  | JsonNumber
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

/** The deepest nesting of arrays and objects (C26). */
const maxDepth = 64;

/** The largest number of values in a body (C60), because each can take 300 bytes of memory. */
export const maxBodyValues = 65_536;

declare const bytes: unique symbol;

/**
 * A string whose characters are bytes, for sockets and files. `toByteString` makes one of a text.
 */
export type ByteString = string & { readonly [bytes]: true };

/** Returns the byte string of a text; a lone surrogate becomes U+FFFD. */
export function toByteString(text: string): ByteString {
  // ASCII text is unchanged in UTF-8.
  return asByteString(isAscii(text) ? text : Buffer.from(text).toString('latin1'));
}

/**
 * Returns a string as a byte string, unchecked: it was read from bytes or joined of byte strings.
 */
export function asByteString(text: string): ByteString {
  return text as ByteString;
}

/** True if a string holds the bytes of UTF-8, not a text that was never converted. */
export function isUtf8String(text: string): boolean {
  return isAscii(text) || (/^[\0-\xff]*$/.test(text) && isUtf8(Buffer.from(text, 'latin1')));
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

/**
 * Parses one JSON text. With {@link maxBodyValues} the result takes a small multiple of the text's
 * length in memory (C60).
 * @throws PetstoreError `invalid_json` with the byte offset of the first error
 */
export function parseJson(byteString: string, maxValues = Infinity): JsonValue {
  return new Reader(byteString, maxValues).document();
}

/** An escape, or two if the first is a high surrogate. */
const escapeSequence = /\\(?:["\\/bfnrt]|u(?:[Dd][89ABab][0-9A-Fa-f]{2}\\u)?[0-9A-Fa-f]{4})/y;

/** A continuation byte: `UTF8-tail` of RFC 3629 section 4. */
const tail = '[\\x80-\\xbf]';

/** The unescaped characters of a string, by their lead bytes (the table of RFC 3629 section 4). */
const plainCharacters = [
  '[ !#-\\[\\]-\\x7f]',
  `[\\xc2-\\xdf]${tail}`,
  `\\xe0[\\xa0-\\xbf]${tail}`,
  `[\\xe1-\\xec\\xee\\xef]${tail}{2}`,
  `\\xed[\\x80-\\x9f]${tail}`,
  `\\xf0[\\x90-\\xbf]${tail}{2}`,
  `[\\xf1-\\xf3]${tail}{3}`,
  `\\xf4[\\x80-\\x8f]${tail}{2}`,
];

/** Up to 64 unescaped characters, because V8 keeps a backtracking entry for each. */
const plainRun = new RegExp(`(?:${plainCharacters.join('|')}){1,64}`, 'y');

function isDigit(byte: number): boolean {
  return byte >= 0x30 /* 0 */ && byte <= 0x39 /* 9 */;
}

/** Parses a text from its first byte to its last; `#at` is the offset of the next byte. */
class Reader {
  readonly #bytes: string;
  readonly #maxValues: number;
  #at: number;
  #values = 0;

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

  /** Parses a value that is nested in `depth` arrays and objects. */
  #value(depth: number): JsonValue {
    const byte = this.#skipSpace();
    if (++this.#values > this.#maxValues) this.#fail(`over ${this.#maxValues} values`);

    if (byte === 0x7b /* { */) return this.#object(depth + 1);
    if (byte === 0x5b /* [ */) return this.#array(depth + 1);
    if (byte === 0x22 /* " */) return this.#string();
    if (byte === 0x74 /* t */) return this.#word('true', true);
    if (byte === 0x66 /* f */) return this.#word('false', false);
    if (byte === 0x6e /* n */) return this.#word('null', null);
    return this.#number();
  }

  #object(depth: number): JsonValue {
    const members = new Map<string, JsonValue>();

    this.#enter(depth);
    if (this.#skipSpace() !== 0x7d /* } */)
      do {
        if (this.#skipSpace() !== 0x22 /* " */) this.#fail('expected a member name');
        const nameAt = this.#at;
        const name = this.#string();
        if (members.has(name)) this.#fail('a member name that stands twice', nameAt);

        if (!this.#takes(0x3a /* : */)) this.#fail('expected ":"');
        members.set(name, this.#value(depth));
      } while (this.#takes(0x2c /* , */));

    if (!this.#takes(0x7d)) this.#fail('expected "," or "}"');
    return members;
  }

  #array(depth: number): JsonValue {
    const items: JsonValue[] = [];

    this.#enter(depth);
    if (this.#skipSpace() !== 0x5d /* ] */)
      do items.push(this.#value(depth));
      while (this.#takes(0x2c /* , */));

    if (!this.#takes(0x5d)) this.#fail('expected "," or "]"');
    return items;
  }

  /** Skips the first byte of an array or object, whose own depth of nesting is `depth`. */
  #enter(depth: number): void {
    if (depth > maxDepth) this.#fail(`nesting over ${maxDepth}`);
    this.#at++;
  }

  /** Skips white space, and then `byte` if it comes next. Returns true if it did. */
  #takes(byte: number): boolean {
    const isNext = this.#skipSpace() === byte;
    if (isNext) this.#at++;
    return isNext;
  }

  /**
   * Parses a string: checks all of it, then decodes it at once, because a string that grows by
   * single characters takes 64 bytes for each.
   */
  #string(): string {
    const from = this.#at + 1;
    let isEscaped = false;
    let isAscii = true;

    this.#at = from;
    for (let byte = this.#skipAscii(); byte !== 0x22 /* " */; byte = this.#skipAscii()) {
      if (byte === 0x5c /* \ */) {
        this.#skipEscape();
        isEscaped = true;
      } else {
        this.#skipPlain(byte);
        isAscii = false;
      }
    }

    const bytes = this.#bytes.slice(from, this.#at++);
    const text = isAscii ? bytes : Buffer.from(bytes, 'latin1').toString();
    return isEscaped ? JSON.parse(`"${text}"`) : text;
  }

  /** Skips unescaped ASCII characters and returns the byte after them. */
  #skipAscii(): number {
    let byte = this.#bytes.charCodeAt(this.#at);
    while (byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c)
      byte = this.#bytes.charCodeAt(++this.#at);
    return byte;
  }

  /** Skips unescaped characters, of which the first begins with `byte`. */
  #skipPlain(byte: number): void {
    if (this.#token(plainRun) !== '') return;
    this.#fail(byte < 0x20 ? 'a control character that is not escaped' : 'invalid UTF-8');
  }

  /** Skips an escape, or the two escapes of a surrogate pair. */
  #skipEscape(): void {
    const start = this.#at;
    const text = this.#token(escapeSequence);
    if (text === '') {
      const isCutOff = /^\\(?:u[0-9A-Fa-f]{0,3})?$/.test(this.#bytes.slice(start, start + 6));
      this.#fail('an unknown escape', isCutOff ? this.#bytes.length : start);
    }

    // Only a \u escape can be half of a surrogate pair.
    const decoded: string = text.startsWith('\\u') ? JSON.parse(`"${text}"`) : '';
    if (!decoded.isWellFormed()) this.#fail('a lone surrogate', start);
  }

  /** Parses a number: its integer, then its fraction, then its exponent. */
  #number(): JsonNumber {
    const bytes = this.#bytes;
    const start = this.#at;
    let at = start;

    if (bytes.charCodeAt(at) === 0x2d /* - */) at++;
    else if (!isDigit(bytes.charCodeAt(at))) this.#fail('expected a value');

    // No digit follows a leading zero.
    at = bytes.charCodeAt(at) === 0x30 /* 0 */ ? at + 1 : this.#endOfDigits(at);

    let byte = bytes.charCodeAt(at);
    if (byte === 0x2e /* . */) {
      at = this.#endOfDigits(at + 1);
      byte = bytes.charCodeAt(at);
    }

    if (byte === 0x65 /* e */ || byte === 0x45 /* E */) {
      const sign = bytes.charCodeAt(++at);
      at = this.#endOfDigits(sign === 0x2b /* + */ || sign === 0x2d /* - */ ? at + 1 : at);
    }

    this.#at = at;
    return new JsonNumber(bytes.slice(start, at));
  }

  /** Returns the offset after the digits at `start`. Fails if there are no digits. */
  #endOfDigits(start: number): number {
    let end = start;
    while (isDigit(this.#bytes.charCodeAt(end))) end++;
    if (end === start) this.#fail('expected a digit', start);
    return end;
  }

  /** Skips and returns what a sticky pattern matches. */
  #token(pattern: RegExp): string {
    const start = this.#at;
    pattern.lastIndex = start;
    if (pattern.test(this.#bytes)) this.#at = pattern.lastIndex;
    return this.#bytes.slice(start, this.#at);
  }

  /** Skips a literal name. Fails at its first wrong letter. */
  #word(word: string, value: null | boolean): JsonValue {
    for (const letter of word)
      if (this.#bytes[this.#at++] !== letter) this.#fail('expected a value', this.#at - 1);
    return value;
  }

  /** Skips white space and returns the byte after it, or NaN at the end of the text. */
  #skipSpace(): number {
    let byte = this.#bytes.charCodeAt(this.#at);
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09)
      byte = this.#bytes.charCodeAt(++this.#at);
    return byte;
  }

  /** Throws the problem at an offset; at the end of the text, the problem is the end itself. */
  #fail(problem: string, at = this.#at): never {
    const what = at < this.#bytes.length ? problem : 'the text ends too early';
    throw new PetstoreError('invalid_json', `Not valid JSON: ${what}, at byte ${at}.`);
  }
}

/**
 * Parses one JSON text into plain values, as `JSON.parse` does. An integer beyond 2^53 becomes a
 * bigint.
 * @throws PetstoreError `invalid_json`
 */
export function parsePlainJson(byteString: string): unknown {
  return plainValue(parseJson(byteString, maxBodyValues));
}

function plainValue(value: JsonValue): unknown {
  if (value instanceof JsonNumber) {
    const number = Number(value.text);
    return Number.isSafeInteger(number) ? number : (int64OfJsonNumber(value.text) ?? number);
  }
  if (value instanceof Map)
    return Object.fromEntries(Array.from(value, ([name, each]) => [name, plainValue(each)]));
  return Array.isArray(value) ? value.map(plainValue) : value;
}

/**
 * Writes a value as JSON: as `JSON.stringify` does, but a bigint becomes an integer.
 * @throws TypeError if the value has no JSON, or a bigint is not an int64.
 */
export function writeJson(value: unknown): string {
  const json = jsonOf(value, 0);
  if (json === undefined) throw new TypeError('this value has no JSON');
  return json;
}

function jsonOf(value: unknown, depth: number): string | undefined {
  if (typeof value === 'bigint') {
    if (!isInt64(value)) throw new TypeError('a bigint of JSON must be a 64-bit integer');
    return String(value);
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depth > 1_000) throw new TypeError('this value is nested too deeply, or contains itself');

  if ('toJSON' in value && typeof value.toJSON === 'function')
    return jsonOf(value.toJSON(), depth + 1);
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value))
    return `[${Array.from(value, (item) => jsonOf(item, depth + 1) ?? 'null').join(',')}]`;

  const members = Object.entries(value).flatMap(([name, item]) => {
    const text = jsonOf(item, depth + 1);
    return text === undefined ? [] : `${JSON.stringify(name)}:${text}`;
  });
  return `{${members.join(',')}}`;
}

/** The largest int64. */
export const int64Max = 2n ** 63n - 1n;
/** The smallest int64. */
export const int64Min = -(2n ** 63n);

/** True if a bigint is within the range of an int64. */
export function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

/** Parses the int64 of a path or a query (C2, C10); undefined for `-0`, 2^63 or any other text. */
export function parseInt64(text: string): bigint | undefined {
  if (!/^(?:0|-?[1-9][0-9]{0,18})$/.test(text)) return undefined;

  const value = BigInt(text);
  return isInt64(value) ? value : undefined;
}

/**
 * Returns the int64 of a JSON number (C22); undefined if it is not an int64. No large bigint is
 * built for `1e400` or a million digits (C24).
 */
export function int64OfJsonNumber(number: string): bigint | undefined {
  if (number.length < 16 && /^-?[0-9]+$/.test(number)) return BigInt(Number(number));

  const grammar = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE](.+))?$/;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = grammar.exec(number) ?? [];

  const digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return 0n;

  // The number of digits before the decimal point, with zeros appended by the exponent.
  const places = digits.length - fraction.length + Number(exponent);
  if (places < 1 || places > 19 || /[1-9]/.test(digits.slice(places))) return undefined;

  const value = BigInt(sign + digits.slice(0, places).padEnd(places, '0'));
  return isInt64(value) ? value : undefined;
}
