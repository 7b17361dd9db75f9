/** Owns what stands between the quotes of a JSON string: escapes and UTF-8, both checked. Knows no other JSON. */
import { PetstoreError } from './errors.js';

/** The one error of reading JSON (C26): what is wrong, and at which byte. */
export function invalidJson(problem: string, at: number): PetstoreError {
  return new PetstoreError('invalid_json', `Not valid JSON: ${problem}, at byte ${at}.`);
}

/**
 * The text of a JSON string in a byte string, and where what follows its closing quote begins.
 * @param start Where it begins, behind the opening quote.
 * @throws PetstoreError `invalid_json`.
 */
export function decodeJsonString(bytes: string, start: number): { readonly text: string; readonly end: number } {
  let text = '';
  let plainFrom = start;
  for (let at = start; at < bytes.length; ) {
    const byte = bytes.charCodeAt(at);
    if (byte === 0x22) return { text: text + bytes.slice(plainFrom, at), end: at + 1 };
    if (byte < 0x20) throw invalidJson('a control character that is not escaped', at);
    if (byte < 0x80 && byte !== 0x5c) {
      at++;
      continue;
    }
    const { text: decoded, end } = byte === 0x5c ? escaped(bytes, at) : utf8(bytes, at);
    text += bytes.slice(plainFrom, at) + decoded;
    plainFrom = at = end;
  }
  throw invalidJson('the text ends too early', bytes.length);
}

interface Piece {
  readonly text: string;
  readonly end: number;
}

const escapes = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

function escaped(bytes: string, at: number): Piece {
  const letter = bytes.charAt(at + 1);
  if (letter === '') throw invalidJson('the text ends too early', at + 1);
  if (letter === 'u') return unicodeEscape(bytes, at);
  const text = escapes.get(letter);
  if (text === undefined) throw invalidJson('an unknown escape', at);
  return { text, end: at + 2 };
}

function unicodeEscape(bytes: string, at: number): Piece {
  const first = codeUnit(bytes, at);
  if (first < 0xd800 || first > 0xdfff) return { text: String.fromCharCode(first), end: at + 6 };
  // Two escapes make one character beyond U+FFFF; half of a pair is no text at all (RFC 7493 section 2.1).
  if (first < 0xdc00 && bytes.startsWith('\\u', at + 6)) {
    const second = codeUnit(bytes, at + 6);
    if (second >= 0xdc00 && second <= 0xdfff) return { text: String.fromCharCode(first, second), end: at + 12 };
  }
  throw invalidJson('a lone surrogate', at);
}

/** The four hexadecimal digits of the escape that begins at `at`. */
function codeUnit(bytes: string, at: number): number {
  const digits = bytes.slice(at + 2, at + 6);
  if (/^[0-9A-Fa-f]{4}$/.test(digits)) return Number.parseInt(digits, 16);
  if (/^[0-9A-Fa-f]*$/.test(digits)) throw invalidJson('the text ends too early', bytes.length);
  throw invalidJson('an escape without four hexadecimal digits', at);
}

/** One character of two to four bytes; the ranges are the table of RFC 3629 section 4. */
function utf8(bytes: string, at: number): Piece {
  const lead = bytes.charCodeAt(at);
  const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length === 0) throw invalidJson('invalid UTF-8', at);
  let code = lead & (0xff >> (length + 1));
  for (let i = 1; i < length; i++) {
    const byte = bytes.charCodeAt(at + i);
    const low = i > 1 ? 0x80 : lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
    const high = i > 1 ? 0xbf : lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
    if (!(byte >= low && byte <= high)) throw invalidJson('invalid UTF-8', at);
    code = (code << 6) | (byte & 0x3f);
  }
  return { text: String.fromCodePoint(code), end: at + length };
}
