/** The errors by which a check says that a rule is broken, or that it cannot be checked. */
import type { RawResponse } from './raw-connection.js';

/** The bytes that were sent and received. */
export type ExchangedBytes = Pick<RawResponse, 'sent' | 'came'>;

/** The error for a response that breaks a rule. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
  /** A summary of the request: request line and body, or a value. */
  readonly sent: string;
  /** A summary of the response. */
  readonly came: string;
  /** The expected response, in words. */
  readonly expected: string;
  readonly exchange: ExchangedBytes;

  constructor(
    exchange: ExchangedBytes,
    expected: string,
    came = summaryOf(exchange.came),
    sent = summaryOf(exchange.sent),
  ) {
    const [shownSent, shownCame] = [shortened(sent, 1_000), shortened(came, 1_000)];
    super(`sent ${shownSent}, got ${shownCame}, not ${expected}`);
    this.sent = shownSent;
    this.came = shownCame;
    this.expected = expected;
    this.exchange = exchange;
  }
}

/**
 * The error for a rule that cannot be checked, because the server breaks a rule that the check
 * relies on, or lacks an optional feature.
 */
export class Untried extends Error {
  override readonly name = 'Untried';
}

/**
 * Throws unless the response is right.
 *
 * @param expected The expected response, in words.
 * @param came What was received, if a value says it better than the response.
 * @param sent What was sent, if a value says it better than the request.
 * @throws Mismatch if `isRight` is false
 */
export function expect(
  exchange: ExchangedBytes,
  isRight: boolean,
  expected: string,
  came?: string,
  sent?: string,
): void {
  if (!isRight) throw new Mismatch(exchange, expected, came, sent);
}

/** Returns the first line of an HTTP message without its version, and the start of its body. */
export function summaryOf(message: string): string {
  const headEnd = message.indexOf('\r\n\r\n');
  const [head, body] =
    headEnd < 0 ? [message, ''] : [message.slice(0, headEnd), message.slice(headEnd + 4)];
  const [line = ''] = head.slice(0, 4_096).split(/\r?\n/, 1);
  const lineShown = line.replace(/^HTTP\/\d\.\d /, '').replace(/ HTTP\/1\.1$/, '');
  const start = `${lineShown} ${body.slice(0, 4_096).replaceAll('\r\n\r\n', ' ')}`;
  const text = Buffer.from(start.trim(), 'latin1').toString('utf8');
  return shortened(text, 120) || 'nothing';
}

/** Returns a text, or its first `length` characters and an ellipsis. */
function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
