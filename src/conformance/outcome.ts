/** The errors by which a check says that a rule is broken, or that it cannot be checked. */
import type { KeyMask } from './key-mask.js';
import type { RawResponse } from './raw-connection.js';

/** The bytes that were sent and received. */
export type ExchangedBytes = Pick<RawResponse, 'sent' | 'came'>;

/** Values that say better than the bytes what was sent and received. */
export interface Summaries {
  readonly sent?: string | undefined;
  readonly came?: string | undefined;
  /** The bytes of several requests. Those of a round were sent at the same time. */
  readonly rounds?: readonly (readonly string[])[];
}

/** The error for a response that breaks a rule. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
  /** The expected response, in words. */
  readonly expected: string;
  readonly exchange: ExchangedBytes;
  readonly summaries: Summaries;
  /**
   * The numbers of rules that explain this mismatch if they are broken. The checked rule is then
   * not tried, so that one fault breaks one rule.
   */
  readonly causes: readonly string[];
  /** The number of another rule that this mismatch breaks, in place of the checked one. */
  readonly breaks: string | undefined;

  constructor(
    exchange: ExchangedBytes,
    expected: string,
    summaries: Summaries = {},
    causes: readonly string[] = [],
    breaks?: string,
  ) {
    super(`the response is not ${expected}`);
    this.exchange = exchange;
    this.expected = expected;
    this.summaries = summaries;
    this.causes = causes;
    this.breaks = breaks;
  }

  /** Returns summaries of the request and of the response, without the key. */
  shown(mask: KeyMask): { readonly sent: string; readonly came: string } {
    const { sent, came } = this.summaries;
    const start = (bytes: string) => mask.hide(bytes.slice(0, 2 ** 16));
    return {
      sent: sent === undefined ? summaryOf(start(this.exchange.sent)) : shownValue(sent, mask),
      came: came === undefined ? summaryOf(start(this.exchange.came)) : shownValue(came, mask),
    };
  }
}

const shownValue = (value: string, mask: KeyMask) => shortened(mask.hide(value), 1_000);

/** The error for a rule that was not checked, although the server may break it. */
export class Untried extends Error {
  override readonly name = 'Untried';
}

/** The error for a rule that does not concern the server, such as one on an optional feature. */
export class Inapplicable extends Error {
  override readonly name = 'Inapplicable';
}

/**
 * Throws unless the response is right.
 *
 * @param expected The expected response, in words.
 * @param came What was received, if a value says it better than the response.
 * @param sent What was sent, if a value says it better than the request.
 * @param causes The numbers of rules that explain a mismatch if they are broken.
 * @throws Mismatch if `isRight` is false
 */
export function expect(
  exchange: ExchangedBytes,
  isRight: boolean,
  expected: string,
  came?: string,
  sent?: string,
  causes: readonly string[] = [],
): asserts isRight {
  if (!isRight) throw new Mismatch(exchange, expected, { sent, came }, causes);
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
