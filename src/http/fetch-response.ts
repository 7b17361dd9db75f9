/** Responses of `fetch`, among them those that break as a connection breaks (C62). */
import { constants } from 'node:os';
import { setTimeout } from 'node:timers';
import type { Reply } from '../reply.js';
import { allHeaders, truncatedBody } from './wire.js';

/**
 * The time until the body of a truncated response errors, in milliseconds. Servers read ahead, and
 * drop what they have read if the body errors at once.
 */
const readAheadMs = 20;

/** True if the second argument of `fetch` comes from `Deno.serve`, `Bun.serve` or Hono. */
export function isServerArgument(value: unknown): boolean {
  return ['remoteAddr', 'requestIP', 'incoming'].some((name) => name in Object(value));
}

/**
 * Returns the response to a request whose connection breaks.
 * @param isHead True if the response has no body.
 * @param isServed True if a server called `fetch`.
 * @throws TypeError as the platform's `fetch` for a dropped connection, unless a server called
 */
export function cutResponse(reply: Reply, isHead: boolean, isServed: boolean): Response {
  if (reply.cut === 'drop') {
    if (isServed) return droppedResponse();
    // Hono sends the result of `getResponse` in place of a 500.
    throw withHidden(connectionError('fetch failed', 'drop'), { getResponse: droppedResponse });
  }

  const { status, body } = reply;
  const headers = headersOf(reply);
  if (isHead || body === undefined) return new Response(null, { status, headers });

  headers.set('Content-Length', String(body.length));
  const stream = brokenStream('truncate', truncatedBody(reply), readAheadMs);
  return new Response(stream, { status, headers });
}

/** Returns the headers of a reply for a `Response`. */
export function headersOf(reply: Reply): Headers {
  const headers = new Headers();
  const list = allHeaders(reply);
  for (let i = 0; i < list.length; i += 2) headers.append(list[i] ?? '', list[i + 1] ?? '');
  return headers;
}

/**
 * Returns the nearest to a dropped connection that a server can send: Bun then resets the
 * connection before the first byte, others after the head.
 */
function droppedResponse(): Response {
  return new Response(brokenStream('drop'), { status: 502 });
}

/** Returns a stream of the beginning of a body, which errors after some milliseconds. */
function brokenStream(cut: string, beginning = '', ms = 0): ReadableStream<Uint8Array> {
  let isSent = beginning === '';
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (isSent) {
      if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
      return controller.error(connectionError('terminated', cut));
    }
    isSent = true;
    controller.enqueue(Buffer.from(beginning, 'latin1'));
  };
  return new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 });
}

/**
 * Returns the error of a broken connection, as Node's `fetch` has it. It has no stack trace,
 * because servers print it. By `code` and `errno`, msw lets the request of the client fail.
 */
function connectionError(message: string, cut: string): TypeError {
  const { stackTraceLimit } = Error;
  Reflect.set(Error, 'stackTraceLimit', 0);
  try {
    const reset = { code: 'ECONNRESET', errno: -constants.errno.ECONNRESET };
    const cause = withHidden(new Error(`the connection was cut: ${cut}`), reset);
    return withHidden(new TypeError(message, { cause }), reset);
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/** Adds members to an error that servers do not print. */
function withHidden<Value extends Error>(error: Value, members: object): Value {
  for (const [name, value] of Object.entries(members))
    Object.defineProperty(error, name, { value, configurable: true, writable: true });
  return error;
}
