/** Owns an answer that leaves before the body of its request was read. Knows no reply's content. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** How much of an unread body is still taken in behind an early answer, and for how long (C51). */
const drainBytes = 65_536;
const drainMs = 1_000;

/**
 * Sends the body of a reply whose head is written, but takes in some of the unread body before it hangs up: closing at
 * once would reset the connection, and the client might never read the reply (RFC 9112 section 9.6).
 */
export function sendAndDrain(request: IncomingMessage, response: ServerResponse, body: string | undefined): void {
  if (body === undefined) response.flushHeaders();
  else response.write(body, 'latin1');
  let bytes = 0;
  const end = (): void => {
    clearTimeout(timer);
    request.off('data', onData).off('end', end).off('close', end);
    // That was all the patience there is.
    request.socket.once('finish', () => request.socket.destroy());
    response.end();
  };
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes >= drainBytes) end();
  };
  const timer = setTimeout(end, drainMs);
  request.on('data', onData).on('end', end).on('close', end);
}
