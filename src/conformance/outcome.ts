/** How a rule ends that does not hold, or that cannot be tried. */
import type { Answer } from './raw-connection.js';

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
    const [shownSent, shownCame] = [shortened(sent, 1_000), shortened(came, 1_000)];
    super(`sent ${shownSent}, got ${shownCame}, not ${expected}`);
    this.sent = shownSent;
    this.came = shownCame;
    this.expected = expected;
    this.exchange = exchange;
  }
}

/**
 * A rule cannot be tried: it needs what another rule asks for, and the server does not keep that
 * one; or it speaks of what this server does not have.
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
  const headEnd = message.indexOf('\r\n\r\n');
  const [head, body] =
    headEnd < 0 ? [message, ''] : [message.slice(0, headEnd), message.slice(headEnd + 4)];
  const [line = ''] = head.slice(0, 4_096).split(/\r?\n/, 1);
  const words = line.replace(/^HTTP\/\d\.\d /, '').replace(/ HTTP\/1\.1$/, '');
  const begin = `${words} ${body.slice(0, 4_096).replaceAll('\r\n\r\n', ' ')}`;
  const text = Buffer.from(begin.trim(), 'latin1').toString('utf8');
  return shortened(text, 120) || 'nothing';
}

/** Returns a text, or its first `length` characters and an ellipsis. */
function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
