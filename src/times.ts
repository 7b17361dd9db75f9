/** Times as texts (RFC 3339). */
import { lastTime } from './clock.js';

/** Parses a date, or a time with its zone, to milliseconds since the epoch; NaN if not valid. */
export function timeOf(text: string): number {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  const day = text.slice(0, 10);

  // `Date` takes 31 February for 3 March.
  const isOfCalendar = form.test(text) && new Date(day).getUTCDate() === Number(day.slice(8));
  return isOfCalendar ? Date.parse(text) : NaN;
}

/** The times that `parseTime` accepts, for messages. */
export const timeRule =
  'a time of RFC 3339 such as 2030-12-05T23:59:50Z, from 1970 to the end of 9999 in UTC';

/** Parses a time with seconds and a zone, to milliseconds since the epoch; else undefined. */
export function parseTime(text: string): number | undefined {
  const time = /T..:..:../i.test(text) ? timeOf(text.toUpperCase()) : NaN;
  return time >= 0 && time <= lastTime ? time : undefined;
}
