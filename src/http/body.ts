/** Reads a whole body from whatever hands it over, for `fetch` and `handler`. */
import { isPetstoreError, PetstoreError } from '../errors.js';
import { bodyTooLarge } from '../request.js';

/** The chunks of a body. A text is written as UTF-8. */
export type Chunks = AsyncIterable<unknown> | Iterable<unknown>;

/**
 * Reads a body as a byte string. Whoever calls this still decides what happens to the stream: it is
 * not destroyed.
 *
 * @param open - Opens the body as the reading begins.
 * @param ended - Resolves once the request has ended in another way, so that no more is read.
 * @throws PetstoreError `content_too_large` past `maxBytes`, `bad_request` if the body fails.
 */
export async function readAll(
  open: () => Chunks,
  maxBytes: number,
  ended?: Promise<void>,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    const iterator = iteratorOf(open());
    for (;;) {
      const next = iterator.next();
      const result = await (ended === undefined ? next : Promise.race([next, ended]));
      if (result === undefined) throw new Error('the response has ended before the body');
      if (result.done === true) break;

      const chunk = typeof result.value === 'string' ? Buffer.from(result.value) : result.value;
      if (!(chunk instanceof Uint8Array)) throw new TypeError('a chunk of the body is not bytes');
      bytes += chunk.length;
      if (bytes > maxBytes) {
        await iterator.return?.();
        throw bodyTooLarge(maxBytes);
      }
      chunks.push(chunk);
    }
  } catch (cause) {
    if (isPetstoreError(cause)) throw cause;
    throw new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
  }
  return Buffer.concat(chunks).toString('latin1');
}

function iteratorOf(chunks: Chunks): AsyncIterator<unknown> | Iterator<unknown> {
  return Symbol.asyncIterator in chunks
    ? chunks[Symbol.asyncIterator]()
    : chunks[Symbol.iterator]();
}
