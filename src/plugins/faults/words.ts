/** Parses faults, as the header `Petstore-Fault` and the rules write them. */
import type { ReplyErrorCode } from '../../index.js';

/** The error codes of faults, by their status. */
export const codes = {
  408: 'request_timeout',
  409: 'idempotency_in_flight',
  429: 'too_many_requests',
  500: 'internal_error',
  502: 'bad_gateway',
  503: 'unavailable',
  504: 'gateway_timeout',
} as const satisfies Readonly<Record<number, ReplyErrorCode>>;

/** The maximum delay, so that a client cannot keep connections open for long. */
const maxDelayMs = 30_000;

/** The syntax of a fault, for messages. */
export const faultWords =
  `one of status=${Object.keys(codes).join(', status=')}, drop and truncate, or ` +
  `delay=MILLISECONDS (up to ${maxDelayMs}), or one of them and a delay; ` +
  'with before or after, or, for a delay alone, within; joined by commas';

/** A fault of one request. */
export interface Fault {
  /** The code of the error response, if any. */
  readonly code: ReplyErrorCode | undefined;
  /** The way in which the connection breaks, if any. */
  readonly cut: 'drop' | 'truncate' | undefined;
  /** In milliseconds, from 0 to 30,000. */
  readonly delayMs: number;
  /** Before or after the operation; `within` delays the operation itself. */
  readonly moment: 'before' | 'after' | 'within';
}

/** Parses a fault; returns undefined if its syntax is not valid. */
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
  // A moment alone is not a fault.
  if (!isAllRead || !isOnce || effects + delays.length === 0 || delayMs > maxDelayMs)
    return undefined;
  if (moment === 'within' && effects > 0) return undefined;
  return { code: statuses[0]?.[1], cut: cuts[0], delayMs, moment };
}
