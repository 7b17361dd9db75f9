/** Owns reading a setting's text to a value, and the words of the refusal. Knows no particular option. */
import { Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/**
 * A number in plain decimal digits.
 * @throws Refusal unless it is from `least` to `most`.
 */
export function readWholeNumber({ text, from }: Setting, least: number, most: number): number {
  const number = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : NaN;
  if (number >= least && number <= most) return number;
  throw new Refusal(`${from} must be a whole number from ${least} to ${most}, not ${quoted(text)}`);
}

/** @throws Refusal unless it is one of the words. */
export function readWord<Word extends string>({ text, from }: Setting, words: readonly Word[]): Word {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw new Refusal(`${from} must be one of ${words.join(', ')}, not ${quoted(text)}`);
}

/** @throws Refusal unless it is an absolute http or https URL. */
export function readUrl({ text, from }: Setting): string {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return text;
  throw new Refusal(`${from} must be an absolute URL such as https://api.example.com/v1`);
}

/** @throws Refusal for what cannot be a host name or an address. */
export function readHost({ text, from }: Setting): string {
  if (/^[0-9A-Za-z_.:%-]+$/.test(text)) return text;
  throw new Refusal(`${from} must be an address or a host name such as 127.0.0.1 or ::1, not ${quoted(text)}`);
}

/**
 * A length of time such as `90d`, in milliseconds.
 * @throws Refusal unless it is a whole number of s, m, h or d, of at most 100 years.
 */
export function readDuration({ text, from }: Setting): number {
  const [, count = '', unit = ''] = /^([1-9][0-9]{0,9})([smhd])$/.exec(text) ?? [];
  const milliseconds = Number(count) * (unitMs.get(unit) ?? NaN);
  if (milliseconds <= 36_525 * dayMs) return milliseconds;
  throw new Refusal(`${from} must be a time such as 90d, 12h, 30m or 60s, of at most 100 years, not ${quoted(text)}`);
}

const dayMs = 86_400_000;
const unitMs = new Map([
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', dayMs],
]);

/** A value in a message, cut where it is long. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
