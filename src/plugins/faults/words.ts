/** The words of a fault: what the header `Petstore-Fault` and the rules say. */
import type { ReplyErrorCode } from '../../index.js';

/** The statuses of faults, with the code of their Error body. */
export const codes = {
  408: 'request_timeout',
  409: 'idempotency_in_flight',
  429: 'too_many_requests',
  500: 'internal_error',
  502: 'bad_gateway',
  503: 'unavailable',
  504: 'gateway_timeout',
} as const satisfies Readonly<Record<number, ReplyErrorCode>>;

/** The longest delay, so that a client cannot keep connections open for long. */
const maxDelayMs = 30_000;

/** The rule that the words of a fault obey, for messages. */
export const faultWords =
  `one of status=${Object.keys(codes).join(', status=')}, drop and truncate, or ` +
  `delay=MILLISECONDS (up to ${maxDelayMs}), or one of them and a delay; ` +
  'with before or after, or, for a delay alone, within; joined by commas';

/** A fault of one request. */
export interface Fault {
  /** The code of the error response, if there is one. */
  readonly code: ReplyErrorCode | undefined;
  /** How the connection breaks, if it does. */
  readonly cut: 'drop' | 'truncate' | undefined;
  /** In milliseconds, from 0 to 30,000. */
  readonly delayMs: number;
  /** The place of the fault: `within` delays the operation itself. */
  readonly moment: 'before' | 'after' | 'within';
}

/** Parses the words of a fault; returns undefined if they break the rule. */
export function parseFault(text: string): Fault | undefined {
  const parts = text.split(',').map((part) => part.trim());
  const has = (part: string) => parts.includes(part);

  const statuses = Object.entries(codes).filter(([status]) => has(`status=${status}`));
  const cuts = (['drop', 'truncate'] as const).filter(has);
  const moments = (['before', 'after', 'within'] as const).filter(has);
  const delays = parts.flatMap((part) => /^delay=(\d{1,5})$/.exec(part)?.[1] ?? []);

  const effects = statuses.length + cuts.length;
  const isAllRead = effects + delays.length + moments.length === parts.length;
  const isOnce = effects <= 1 && delays.length <= 1 && moments.length <= 1;
  const [moment = 'before'] = moments;
  const delayMs = Number(delays[0] ?? 0);
  // A moment alone is no fault.
  if (!isAllRead || !isOnce || effects + delays.length === 0 || delayMs > maxDelayMs)
    return undefined;
  if (moment === 'within' && effects > 0) return undefined;
  return { code: statuses[0]?.[1], cut: cuts[0], delayMs, moment };
}
