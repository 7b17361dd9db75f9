/**
 * The words of faults (C84): one row each. The syntax of a word, its bounds, its effect, its help
 * and its messages follow from its row.
 */
import type { Reply } from '../../index.js';
import { asPage, codes, errorReply, withMember, withRetryAfter } from './changes.js';
import { choice, either, integer, share, type ValueKind } from './word-values.js';

/** Changes the reply of a request; `now` is the time in milliseconds since the epoch. */
export type Change = (reply: Reply, now: number) => Reply;

/** The part of a fault that a word sets. Omitted members leave the fault as it is. */
export interface Effect {
  /** True if the fault takes the place of the response of the operation. */
  readonly replaces?: true;
  readonly change?: Change;
  /** In milliseconds. */
  readonly delayMs?: number;
  /** Before or after the operation; `within` delays the operation itself. */
  readonly moment?: 'before' | 'after' | 'within';
  /** The share of the fitting requests that meet the fault (C86). */
  readonly share?: number;
}

/** A word. */
interface Word {
  /** The values after `=`; omitted if the word has none. */
  readonly value?: ValueKind;
  /** The effect, as a sentence without a full stop. */
  readonly about: string;
  /** A whole fault with this word. */
  readonly example: string;
  /** True if the word does nothing without another word. */
  readonly isModifier?: true;
  /** The words of which the fault must have one. */
  readonly needs?: readonly string[];
  /** The words that the fault must not have. */
  readonly excludes?: readonly string[];
  /** Returns the effect of an accepted value. */
  readonly effect: (value: string) => Effect;
}

/** The times of words, with a bound so that a client cannot keep connections for long. */
const time = integer('MS', 0, 30_000);

/** The words by name, in the order in which they change a reply. */
const table = {
  status: {
    value: choice('CODE', Object.keys(codes)),
    about: 'responds with this status and its Error body',
    example: 'status=503',
    effect: (status) => ({ replaces: true, change: () => errorReply(status) }),
  },
  html: {
    about: 'responds with an error page in HTML, as proxies send; 503 without status=CODE',
    example: 'status=502,html',
    effect: () => ({ replaces: true, change: asPage }),
  },
  'retry-after': {
    value: either(integer('SECONDS', 0, 86_400), choice('WORD', ['date', 'none'])),
    about: 'sets the header Retry-After of the error; date is an HTTP date, none is no header',
    example: 'status=429,retry-after=30',
    isModifier: true,
    needs: ['status', 'html'],
    effect: (value) => ({ change: (reply, now) => withRetryAfter(reply, value, now) }),
  },
  drop: {
    about: 'resets the connection before the first byte of the response',
    example: 'drop,after',
    excludes: ['status', 'html'],
    effect: () => ({ replaces: true, change: (reply) => ({ ...reply, cut: 'drop' }) }),
  },
  truncate: {
    about: 'sends the head and half of the body (at most 64 KiB), then resets the connection',
    example: 'truncate,after',
    excludes: ['status', 'html', 'drop'],
    effect: () => ({ replaces: true, change: (reply) => ({ ...reply, cut: 'truncate' }) }),
  },
  end: {
    about: 'with truncate: ends the connection cleanly in place of the reset',
    example: 'truncate,end,after',
    isModifier: true,
    needs: ['truncate'],
    effect: () => ({ change: (reply) => ({ ...reply, cut: 'end' }) }),
  },
  extra: {
    about: 'adds a member that no schema has to each pet of the response',
    example: 'extra',
    excludes: ['status', 'html', 'drop', 'truncate'],
    effect: () => ({ change: (reply) => withMember(reply, 'extra', 'of no schema') }),
  },
  newstatus: {
    about: 'gives each pet of the response the status hibernating, which no schema has',
    example: 'newstatus',
    excludes: ['status', 'html', 'drop', 'truncate'],
    effect: () => ({ change: (reply) => withMember(reply, 'status', 'hibernating') }),
  },
  dribble: {
    value: time,
    about: 'sends the head at once, and the body in pieces over this time',
    example: 'dribble=2000',
    excludes: ['drop', 'truncate'],
    effect: (ms) => ({ change: (reply) => ({ ...reply, dribbleMs: Number(ms) }) }),
  },
  delay: {
    value: time,
    about: 'waits for this time; alone, or with another word',
    example: 'delay=1500',
    effect: (ms) => ({ delayMs: Number(ms) }),
  },
  before: {
    about: 'the fault comes before the operation, which an error or a cut replaces; the default',
    example: 'status=503,before',
    isModifier: true,
    effect: () => ({ moment: 'before' }),
  },
  after: {
    about: 'the fault comes after the operation: the pet is stored',
    example: 'status=503,after',
    isModifier: true,
    excludes: ['before'],
    effect: () => ({ moment: 'after' }),
  },
  within: {
    about: 'with delay: the operation itself takes this long, after it has checked the request',
    example: 'delay=1500,within',
    isModifier: true,
    needs: ['delay'],
    excludes: ['before', 'after', 'status', 'html', 'drop', 'truncate'],
    effect: () => ({ moment: 'within' }),
  },
  share: {
    value: share,
    about: 'only this share of the requests meets the fault, chosen by the seed of the rules',
    example: 'status=503,share=0.3',
    isModifier: true,
    effect: (value) => ({ share: Number(value) }),
  },
} as const satisfies Readonly<Record<string, Word>>;

/** The words by name, in the order of the table. */
export const words: ReadonlyMap<string, Word> = new Map(Object.entries<Word>(table));

/** A word of faults, for documents and the help. */
export interface FaultWord {
  /** The word with the placeholder of its value, such as `delay=MS`. */
  readonly syntax: string;
  /** The values and the effect, in one sentence. */
  readonly about: string;
  /** A whole fault with this word. */
  readonly example: string;
}

/** All words of faults, for documents and the help. */
export const faultWords: readonly FaultWord[] = Array.from(
  words,
  ([name, { value, about, example }]) => ({
    syntax: value === undefined ? name : `${name}=${value.form}`,
    about: value === undefined ? about : `${about}; ${value.form} is ${value.rule}`,
    example,
  }),
);
