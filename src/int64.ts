/** Owns reading 64-bit integers, exactly and at a cost that the text's length alone decides. Knows no JSON. */

/** The least and the greatest int64. */
export const int64Min = -(2n ** 63n);
export const int64Max = 2n ** 63n - 1n;

/** Whether a bigint fits into 64 bits with a sign. */
export function isInt64(value: bigint): boolean {
  return value >= int64Min && value <= int64Max;
}

/**
 * The int64 that a text spells in the one way that a path, a query or a key of ours allows (C2, C10): digits without
 * a leading zero, a `-` before them where negative. Undefined for any other text, `-0` and 2^63 included.
 */
export function parseInt64(text: string): bigint | undefined {
  if (text.length > 20 || !/^(?:0|-?[1-9][0-9]*)$/.test(text)) return undefined;
  const value = BigInt(text);
  return isInt64(value) ? value : undefined;
}

/**
 * The int64 that a JSON number stands for, whichever way it is written: `1.0`, `1e2` and `-0` are 1, 100 and 0 (C22).
 * Undefined for a fraction and outside the range; neither `1e400` nor a million digits ever become a bigint (C24).
 */
export function int64OfJsonNumber(number: string): bigint | undefined {
  if (number.length < 16 && /^-?[0-9]+$/.test(number)) return BigInt(Number(number));
  const negative = number.startsWith('-');
  const exponentAt = number.search(/[eE]/);
  const mantissa = number.slice(negative ? 1 : 0, exponentAt < 0 ? undefined : exponentAt);
  const pointAt = mantissa.indexOf('.');
  const digits = pointAt < 0 ? mantissa : mantissa.slice(0, pointAt) + mantissa.slice(pointAt + 1);

  let from = 0;
  while (digits[from] === '0') from++;
  if (from === digits.length) return 0n;
  let to = digits.length;
  while (digits[to - 1] === '0') to--;

  // The value is the digits from `from` to `to`, times ten to the power of `zeros`.
  const exponent = exponentAt < 0 ? 0 : Number(number.slice(exponentAt + 1));
  const fractionDigits = pointAt < 0 ? 0 : mantissa.length - pointAt - 1;
  const zeros = exponent - fractionDigits + (digits.length - to);
  if (zeros < 0 || to - from + zeros > 19) return undefined;
  const magnitude = BigInt(digits.slice(from, to) + '0'.repeat(zeros));
  const value = negative ? -magnitude : magnitude;
  return isInt64(value) ? value : undefined;
}
