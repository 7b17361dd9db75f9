/** Faults on demand, to try whether a client copes with them: the header `Petstore-Fault`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PetstoreError, type OpenApiValue, type Plugin, type ReplyErrorCode } from '../index.js';

const codes: Readonly<Record<string, ReplyErrorCode>> = {
  429: 'too_many_requests',
  500: 'internal_error',
  503: 'unavailable',
};
/** The longest delay: a client must not keep connections open for ever. */
const maxDelayMs = 30_000;
const rule =
  'Petstore-Fault must be one or more of status=429, status=500 or status=503, ' +
  `delay=MILLISECONDS (up to ${maxDelayMs}), and before or after, each once and joined by commas.`;

/** The header in the OpenAPI document. */
const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  description: `A fault for this request alone, in place of its operation or after it. ${rule}`,
  schema: { type: 'string', examples: ['status=503', 'status=503,after', 'delay=1500'] },
};

/**
 * Lets a request with a valid API key ask for a fault, which is answered as a real one would be.
 */
export function faultsPlugin(): Plugin {
  return ({ around, describe, onClose }) => {
    const closing = new AbortController();
    onClose(() => closing.abort());

    around(async ({ header, keyName }, next) => {
      const text = header('petstore-fault');
      if (text === undefined || keyName === undefined) return next();
      const { status, delayMs, moment } = parseFault(text);

      // An animal may be kept, although the client is answered by a fault.
      const reply = moment === 'after' ? await next() : undefined;
      if (delayMs > 0)
        await sleep(delayMs, undefined, { signal: closing.signal }).catch(() => undefined);

      const code = codes[status ?? ''];
      if (code === undefined) return reply ?? next();
      const headers = status === '429' ? ['Retry-After', '1'] : [];
      throw new PetstoreError(code, 'This fault was asked for by Petstore-Fault.', { headers });
    });

    describe((document) => {
      // Added to each operation: many generators ignore the parameters of a path.
      for (const item of Object.values<object>(Object(document['paths'])))
        for (const operation of Object.values(item).filter((each) => 'operationId' in each))
          operation.parameters = [...(operation.parameters ?? []), parameter];
    });
  };
}

/**
 * What the header asks for. Without a status the operation is answered as ever.
 *
 * @throws PetstoreError `invalid_parameter` for a text against the rule
 */
function parseFault(text: string) {
  const parts = text.split(',').map((part) => part.trim());
  const find = (pattern: RegExp) => parts.flatMap((part) => pattern.exec(part)?.[1] ?? []);
  const statuses = find(/^status=(429|500|503)$/);
  const delays = find(/^delay=(\d{1,5})$/);
  const moments = find(/^(before|after)$/);

  const all = [statuses, delays, moments];
  const delayMs = Number(delays[0] ?? 0);
  const areOnce = all.every((values) => values.length <= 1);
  if (!areOnce || all.flat().length < parts.length || delayMs > maxDelayMs)
    throw new PetstoreError('invalid_parameter', rule);
  return { status: statuses[0], delayMs, moment: moments[0] };
}
