/** Owns the step between the web platform's Request and Response and ours. Knows no route. */
import { PetstoreError } from '../errors.js';
import { tooLarge } from './content.js';
import { Head } from './head.js';
import type { Message } from './message.js';
import type { Reply } from './reply.js';
import { wireHeaders } from './wire.js';

/** A request that came through `fetch`, with no socket below it. */
export function messageOfRequest(request: Request): Message {
  const head = new Head();
  request.headers.forEach((value, name) => head.add(name, value));
  return {
    method: request.method,
    target: targetOf(request.url),
    isOverdue: false,
    readHead: () => head,
    header: (name) => request.headers.get(name) ?? undefined,
    readBody: (maxBytes) => readBody(request, maxBytes),
    staysOpen: () => undefined,
  };
}

/** The web platform's form of a reply to a request of this method. */
export function responseOf(reply: Reply, method: string): Response {
  const headers = new Headers();
  const lines = wireHeaders(reply);
  for (let i = 0; i < lines.length; i += 2) headers.append(lines[i] ?? '', lines[i + 1] ?? '');
  const body = reply.body === undefined || method === 'HEAD' ? null : Buffer.from(reply.body, 'latin1');
  return new Response(body, { status: reply.status, headers });
}

/** A Request has an absolute URL, always; the target is what a client would send of it. */
function targetOf(url: string): string {
  const pathAt = url.indexOf('/', url.indexOf('//') + 2);
  const hashAt = url.indexOf('#', pathAt);
  return url.slice(pathAt, hashAt < 0 ? undefined : hashAt);
}

async function readBody({ body: stream, signal }: Request, maxBytes: number): Promise<string> {
  let body = '';
  if (stream === null) return body;
  try {
    const reader = stream.getReader();
    // A stream need not hear that its request was given up; reading ends here for it.
    const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined);
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel, { once: true });
    while (body.length <= maxBytes) {
      const { done, value } = await reader.read();
      if (done) break;
      body += Buffer.from(value).toString('latin1');
    }
    cancel();
  } catch (cause) {
    throw unreadable(cause);
  }
  if (signal.aborted) throw unreadable(signal.reason);
  if (body.length > maxBytes) throw tooLarge(maxBytes);
  return body;
}

function unreadable(cause: unknown): PetstoreError {
  return new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
}
