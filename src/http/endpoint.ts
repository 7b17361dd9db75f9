/** All of a petstore that speaks HTTP: its ports, its `handler` for servers of others, its `fetch` without a port. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkNames, PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import type { Reply } from '../reply.js';
import type { Service, Shared } from './connection.js';
import { brokenOff } from './exchange.js';
import { Head, headerOf, mountPathOf, parseHead } from './head.js';
import { HttpServer, stopping, type Listening, type ListenOptions } from './server.js';
import { lingerBytes, lingerMs, Outbox, UnsentBytes, wireHeaders } from './wire.js';

export class Endpoint {
  readonly #shared: Shared;
  readonly #servers: HttpServer[] = [];

  constructor(service: Service) {
    this.#shared = { service, outbox: new Outbox(), unsent: new UnsentBytes(), waiting: 0 };
  }

  /** @throws PetstoreError `unavailable` once the petstore stops; TypeError for options that are none. */
  async listen(options: ListenOptions): Promise<Listening> {
    const { service } = this.#shared;
    if (typeof options !== 'object' || options === null) {
      throw new TypeError('listen takes an object, such as listen({ port: 3000 })');
    }
    checkNames('option of listen', options, ['port', 'host', 'tls'] satisfies (keyof ListenOptions)[]);
    // Node takes a text for the path of a Unix socket.
    if (options.port !== undefined && !Number.isInteger(options.port)) throw new TypeError('port must be an integer');
    if (service.isStopping) throw stopping();
    const server = await HttpServer.listen(this.#shared, options);
    this.#servers.push(server);
    if (service.isStopping) {
      await server.stop(0);
      throw stopping();
    }
    return { url: server.url, port: server.port, setTls: (tls) => server.setTls(tls) };
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop(graceMs)));
  }

  /** Answers a request of another server; a framework's `next` hears of its own mistakes. */
  async handle(request: IncomingMessage, response: ServerResponse, next: unknown): Promise<void> {
    const { service, outbox } = this.#shared;
    let mistake: TypeError | undefined;
    const message: Message = {
      method: request.method ?? '',
      target: request.url ?? '',
      mountPath: mountPathOf(request),
      clientAddress: request.socket?.remoteAddress,
      startedAt: performance.now(),
      readHead: () => parseHead(request),
      header: (name) => headerOf(request.rawHeaders, name),
      readBody: (maxBytes) => {
        const { readableEnded, readableEncoding } = request;
        if (!readableEnded && readableEncoding === null) return readIncoming(request, maxBytes);
        const when = `was ${readableEnded ? 'read' : 'decoded'} before the petstore could read it`;
        mistake = new TypeError(`the body ${when}; mount the petstore before any body parser and any setEncoding`);
        return Promise.reject(mistake);
      },
    };
    const answer = await service.answer(message);
    const send = (): void => {
      service.replied(answer.reply.status, message, answer);
      // What the framework throws is its own, and not the other answers' of this turn.
      if (mistake !== undefined && typeof next === 'function') queueMicrotask(() => next(mistake));
      else write(request, response, answer.reply, service.isStopping);
    };
    outbox.put({ send });
  }

  async fetch(input: Request | string | URL, init?: RequestInit): Promise<Response> {
    const request = input instanceof Request && init === undefined ? input : new Request(input, init);
    const head = new Head();
    request.headers.forEach((value, name) => head.add(name, value));
    const message: Message = {
      method: request.method,
      // What a client would send of its URL, which is always absolute.
      target: request.url.replace(/^[^/]*\/\/[^/]*|#.*/g, ''),
      mountPath: mountPathOf(request),
      startedAt: performance.now(),
      readHead: () => head,
      header: (name) => request.headers.get(name) ?? undefined,
      readBody: (maxBytes) => readStream(request, maxBytes),
    };
    const { service } = this.#shared;
    const answer = await service.answer(message);
    const { status, body } = answer.reply;
    service.replied(status, message, answer);
    const headers = new Headers();
    const lines = wireHeaders(answer.reply);
    for (let i = 0; i < lines.length; i += 2) headers.append(lines[i] ?? '', lines[i + 1] ?? '');
    const isEmpty = body === undefined || request.method === 'HEAD';
    return new Response(isEmpty ? null : Buffer.from(String(body), 'latin1'), { status, headers });
  }
}

async function readIncoming(request: IncomingMessage, maxBytes: number): Promise<string> {
  if (request.destroyed) throw brokenOff();
  const chunks: Buffer[] = [];
  let bytes = 0;
  await new Promise<void>((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else reject(bodyTooLarge(maxBytes));
    });
    request.once('end', resolve);
    request.once('close', () => request.readableEnded || reject(brokenOff()));
    // A framework may have paused it.
    request.resume();
  });
  return Buffer.concat(chunks).toString('latin1');
}

function write(request: IncomingMessage, response: ServerResponse, reply: Reply, isStopping: boolean): void {
  // A framework around us may have answered meanwhile.
  if (response.headersSent || response.writableEnded) return;
  const closes = reply.closes === true || !request.complete || !response.shouldKeepAlive || isStopping;
  response.writeHead(reply.status, wireHeaders({ ...reply, closes }));
  const body = request.method === 'HEAD' ? '' : String(reply.body ?? '');
  if (request.complete) return void response.end(body, 'latin1');
  if (body === '') response.flushHeaders();
  else response.write(body, 'latin1');
  drainAndEnd(request, response);
}

/** Takes in some of the unread body first: Node closes at once, which would reset the reply away (C51). */
function drainAndEnd(request: IncomingMessage, response: ServerResponse): void {
  let bytes = 0;
  const end = (): void => {
    clearTimeout(timer);
    request.off('data', onData).off('end', end).off('close', end);
    request.socket.once('finish', () => request.socket.destroy());
    response.end();
  };
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes >= lingerBytes) end();
  };
  const timer = setTimeout(end, lingerMs);
  request.on('data', onData).on('end', end).on('close', end).resume();
}

async function readStream({ body: stream, signal }: Request, maxBytes: number): Promise<string> {
  if (stream === null) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    const reader = stream.getReader();
    // A stream need not hear that its request was given up.
    const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined);
    signal.addEventListener('abort', cancel, { once: true });
    while (bytes <= maxBytes && !signal.aborted) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!(value instanceof Uint8Array)) throw new TypeError('the body must be of bytes');
      chunks.push(value);
      bytes += value.length;
    }
    cancel();
    signal.throwIfAborted();
  } catch (cause) {
    throw new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
  }
  if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
  return Buffer.concat(chunks).toString('latin1');
}
