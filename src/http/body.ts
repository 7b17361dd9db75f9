/** Reads a whole body from a stream, for `fetch` and `handler`. */
import type { Readable } from 'node:stream';
import { isPetstoreError, PetstoreError } from '../errors.js';
import { bodyTooLarge } from '../request.js';

/** What closes if a request ends before its body was read; a mock may not say it. */
export interface Ending {
  on?(event: 'close', listener: () => void): unknown;
  off?(event: 'close', listener: () => void): unknown;
}

/**
 * Opens a stream, reads it as {@link readAll} does, and destroys it.
 *
 * @throws PetstoreError as there, also if the stream cannot be opened.
 */
export async function readAndDestroy(
  open: () => Readable,
  maxBytes: number,
  ending?: Ending,
): Promise<string> {
  let stream: Readable | undefined;
  try {
    stream = open();
    return await readAll(stream, maxBytes, ending);
  } catch (cause) {
    throw isPetstoreError(cause) ? cause : bodyBroken(cause);
  } finally {
    stream?.destroy();
  }
}

/**
 * Reads a body as a byte string. The stream is not destroyed.
 *
 * @param ending - No more is read once this closes.
 * @throws PetstoreError `content_too_large` past `maxBytes`, `bad_request` if the body fails.
 */
export function readAll(stream: Readable, maxBytes: number, ending?: Ending): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;

  return new Promise((resolve, reject) => {
    const settle = (error?: PetstoreError): void => {
      stream.off('data', take).off('end', finish).off('error', fail).off('close', fail);
      ending?.off?.('close', fail);
      if (error === undefined) resolve(Buffer.concat(chunks).toString('latin1'));
      else reject(error);
    };
    const finish = (): void => settle();
    const fail = (cause?: unknown): void => settle(bodyBroken(cause));
    const take = (chunk: unknown): void => {
      const part = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      if (!(part instanceof Uint8Array)) return void fail(new TypeError('a chunk is not bytes'));
      bytes += part.length;
      chunks.push(part);
      if (bytes <= maxBytes) return;
      stream.pause();
      settle(bodyTooLarge(maxBytes));
    };

    if (stream.readableEnded) return void finish();
    if (stream.destroyed) return void fail(stream.errored);
    stream.on('error', fail).on('close', fail).on('end', finish).on('data', take);
    ending?.on?.('close', fail);
    stream.resume();
  });
}

function bodyBroken(cause: unknown): PetstoreError {
  return new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
}
