/** The kinds of values that the words of a fault take: their syntax and bounds. */

import { nearestTo } from './nearest.js';

/** A kind of values. */
export interface ValueKind {
  /** The placeholder for the value, such as `MS`. */
  readonly form: string;
  /** The values, as the end of the sentence `FORM is …`. */
  readonly rule: string;
  readonly accepts: (text: string) => boolean;
  /** Returns the accepted value that is nearest to `text`. */
  readonly nearest: (text: string) => string;
}

/** Returns the kind of the integers from `least` to `most`, in decimal digits. */
export function integer(form: string, least: number, most: number): ValueKind {
  return {
    form,
    rule: `an integer from ${least} to ${most}`,
    accepts: (text) => /^(?:0|[1-9]\d{0,8})$/.test(text) && isWithin(Number(text), least, most),
    nearest: (text) => String(clamp(Math.round(Number(text)), least, most)),
  };
}

/** Returns the kind of some fixed texts. */
export function choice(form: string, texts: readonly string[]): ValueKind {
  return {
    form,
    rule: `one of ${texts.join(', ')}`,
    accepts: (text) => texts.includes(text),
    nearest: (text) => nearestTo(text, texts),
  };
}

/** Returns the kind of the values of `first` and of those of `second`. */
export function either(first: ValueKind, second: ValueKind): ValueKind {
  return {
    form: first.form,
    rule: `${first.rule}, or ${second.rule}`,
    accepts: (text) => first.accepts(text) || second.accepts(text),
    nearest: (text) => (/^[-+.\d]/.test(text) ? first : second).nearest(text),
  };
}

/** The shares of requests, with at most six decimals. */
export const share: ValueKind = {
  form: 'NUMBER',
  rule: 'a number above 0 and at most 1, such as 0.3, with at most six decimals',
  accepts: (text) => /^(?:0?\.\d{1,6}|1(?:\.0{1,6})?)$/.test(text) && Number(text) > 0,
  nearest: (text) => String(Number(clamp(Number(text), 0.000_001, 1).toFixed(6))),
};

function isWithin(value: number, least: number, most: number): boolean {
  return value >= least && value <= most;
}

/** Returns the number from `least` to `most` that is nearest to `value`; `least` for NaN. */
function clamp(value: number, least: number, most: number): number {
  return Number.isNaN(value) ? least : Math.min(Math.max(value, least), most);
}
