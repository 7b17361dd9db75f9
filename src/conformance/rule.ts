/**
 * What a rule of the contract is for the suite that anyone can point at any server, and how it says
 * that a server does not keep it.
 */
import type { Answer } from './connection.js';
import type { Server } from './server.js';

/**
 * Who says that a rule holds, from few rules to all: the petstore's specification alone; HTTP's
 * standards as well; and docs/contract.md whole, which decides what both leave open.
 */
export const levels = ['specification', 'http', 'full'] as const;

/** A level of the suite; each holds the rules of those before it. */
export type Level = (typeof levels)[number];

/** Sends requests and expects answers; throws a {@link Mismatch} for another answer. */
export type Check = (server: Server) => Promise<void>;

/** One number of the contract, as far as it can be seen from outside. */
export interface Rule extends Readonly<Partial<Record<Level, Check>>> {
  /** Its number in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** What holds, in a sentence without an end. */
  readonly sentence: string;
  /** What a user loses where it does not hold, in half a sentence. */
  readonly cost: string;
  /** Whether it waits for more than a second, so that it runs only where that is asked for. */
  readonly isSlow?: true;
}

/** Some rules of one subject. */
export interface Chapter {
  /** Its heading. */
  readonly name: string;
  /** In the order of their numbers. */
  readonly rules: readonly Rule[];
}

/** What a server answered that breaks a rule. The message says it in one line. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
  /** What was sent, in short: a request line and a body, or a value. */
  readonly sent: string;
  /** What came, in short. */
  readonly came: string;
  /** What should have come. */
  readonly expected: string;
  /** The bytes that were sent and that came. */
  readonly exchange: Pick<Answer, 'sent' | 'came'>;

  constructor(
    exchange: Pick<Answer, 'sent' | 'came'>,
    expected: string,
    came = summaryOf(exchange.came),
    sent = summaryOf(exchange.sent),
  ) {
    super(`sent ${sent}, got ${came}, not ${expected}`);
    this.sent = sent;
    this.came = came;
    this.expected = expected;
    this.exchange = exchange;
  }
}

/**
 * A rule cannot be tried: it needs what another rule asks for, and the server does not keep that, or
 * it speaks of what this server does not have.
 */
export class Untried extends Error {
  override readonly name = 'Untried';
}

/**
 * @param expected What should have come, in words.
 * @param came What came, where a value says it better than the answer.
 * @param sent What was sent, where a value says it better than the request.
 * @throws Mismatch where it is not right
 */
export function expect(
  exchange: Pick<Answer, 'sent' | 'came'>,
  isRight: boolean,
  expected: string,
  came?: string,
  sent?: string,
): void {
  if (!isRight) throw new Mismatch(exchange, expected, came, sent);
}

/** The first line of a message of HTTP, without its version, and the beginning of its body. */
export function summaryOf(message: string): string {
  const [head = '', ...rest] = message.split('\r\n\r\n');
  const [line = ''] = head.split(/\r?\n/);
  const words = line.replace(/^HTTP\/\d\.\d /, '').replace(/ HTTP\/1\.1$/, '');
  const text = Buffer.from(`${words} ${rest.join(' ')}`.trim(), 'latin1').toString('utf8');
  return text.length > 200 ? `${text.slice(0, 200)}…` : text || 'nothing';
}
