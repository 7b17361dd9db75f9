/** Clocks, which return milliseconds since the epoch, and times as texts (RFC 3339). */
import { performance } from 'node:perf_hooks';
import { inspect } from 'node:util';

/** The machine's clock, read at import so that fake timers of a test do not replace it (C68). */
export const machineClock = Date.now;

/**
 * Returns a clock that starts at `start`, in milliseconds since the epoch, and does not follow
 * changes of the machine's clock.
 */
export function steadyClock(start: number): () => number {
  const startedAt = performance.now();
  return () => Math.floor(start + performance.now() - startedAt);
}

/** The last millisecond of the year 9999, the last year that RFC 3339 can express. */
export const lastTime = 253_402_300_799_999;

/** Returns a clock that throws a TypeError unless `clock` returns a time up to the year 9999. */
export function checkedClock(clock: () => number): () => number {
  // Not wrapped, because it is always valid and is read at each request.
  if (clock === machineClock) return clock;

  return () => {
    const now = clock();

    if (isTime(now)) return now;
    throw new TypeError(
      `the clock must return milliseconds since 1970, up to the year 9999, not ${inspect(now)}`,
    );
  };
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < lastTime + 1;
}

/** A clock that can be set. It then advances as its base clock does (C87). */
export class SettableClock {
  readonly #base: () => number;
  /** The difference to the base clock, in milliseconds; undefined if the clock is not set. */
  #shift: number | undefined;

  constructor(base: () => number) {
    this.#base = base;
  }

  /** Returns milliseconds since the epoch. Works unbound. */
  readonly now = (): number => {
    const shift = this.#shift;
    return shift === undefined ? this.#base() : Math.min(this.#base() + shift, lastTime);
  };

  get isSet(): boolean {
    return this.#shift !== undefined;
  }

  /** Sets the time; undefined restores that of the base clock. @throws TypeError */
  set(time: number | undefined): void {
    if (time !== undefined && !isTime(time))
      throw new TypeError(
        `setClock takes milliseconds since 1970, up to the year 9999, not ${inspect(time)}`,
      );
    this.#shift = time === undefined ? undefined : time - this.#base();
  }
}

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
