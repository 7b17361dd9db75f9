/**
 * All of a petstore that speaks HTTP: its listening ports, its `handler` for servers of others, and its `fetch`, which
 * needs no port and no socket.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkNames, PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import type { Reply } from '../reply.js';
import type { Service, Shared } from './connection.js';
import { brokenOff } from './exchange.js';
import { Head, headerOf, mountPathOf, parseHead } from './head.js';
import { HttpServer, type ListenOptions } from './server.js';
import { lingerBytes, lingerMs, Outbox, UnsentBytes, wireHeaders } from './wire.js';

/** The HTTP side of one petstore. */
export class Endpoint {
  readonly #shared: Shared;
  readonly #servers: HttpServer[] = [];

  constructor(service: Service) {
    this.#shared = { service, outbox: new Outbox(), unsent: new UnsentBytes(), waiting: 0 };
  }

  /**
   * Opens a port and resolves to the server behind it; rejects with Node's error where the port cannot be had.
   * @throws TypeError for options that are no object or have an unknown name.
   */
  async listen(options: ListenOptions): Promise<HttpServer> {
    if (typeof options !== 'object' || options === null) {
      throw new TypeError('listen takes an object, such as listen({ port: 3000 })');
    }
    checkNames('option of listen', options, ['port', 'host', 'tls'] satisfies (keyof ListenOptions)[]);
    const server = await HttpServer.listen(this.#shared, options);
    this.#servers.push(server);
    return server;
  }

  /** Ends all ports: what is under way has so many milliseconds to be answered, then the rest is cut. */
  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop(graceMs)));
  }

  /** Answers a request of another server; `next` is what a framework gives for errors that are its own to answer. */
  async handle(request: IncomingMessage, response: ServerResponse, next: unknown): Promise<void> {
    const { service, outbox } = this.#shared;
    const message = new ForeignMessage(request, response);
    const answer = await service.answer(message);
    const send = (): void => {
      const { bodyTaken } = message;
      service.left(answer.reply.status, message, answer);
      if (bodyTaken === undefined || typeof next !== 'function') message.send(answer.reply, service.isStopping);
      // What the framework throws is its own, and not the other answers' of this turn.
      else queueMicrotask(() => next(bodyTaken));
    };
    outbox.put({ send });
  }

  /** Answers a request of the web platform; strings, URLs and `init` are taken as the platform's `fetch` takes them. */
  async fetch(input: Request | string | URL, init?: RequestInit): Promise<Response> {
    const request = input instanceof Request && init === undefined ? input : new Request(input, init);
    const message = messageOfRequest(request);
    const { service } = this.#shared;
    const answer = await service.answer(message);
    service.left(answer.reply.status, message, answer);
    return responseOf(answer.reply, request.method);
  }
}

/** One request of a foreign server and the way back for its reply. */
class ForeignMessage implements Message {
  readonly method: string;
  readonly target: string;
  readonly mountPath: string | undefined;
  readonly startedAt = performance.now();
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** The mistake of whoever mounted the petstore, with its mend; undefined unless the body was asked for and taken. */
  bodyTaken: TypeError | undefined;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.mountPath = mountPathOf(request);
    this.#request = request;
    this.#response = response;
  }

  get clientAddress(): string | undefined {
    return this.#request.socket.remoteAddress;
  }

  readHead(): Head {
    return parseHead(this.#request);
  }

  header(name: string): string | undefined {
    return headerOf(this.#request.rawHeaders, name);
  }

  /** Rejects besides with a TypeError, see {@link bodyTaken}, where the body is no longer what was sent. */
  async readBody(maxBytes: number): Promise<string> {
    const request = this.#request;
    const taken = request.readableEnded ? 'was read' : request.readableEncoding === null ? undefined : 'was decoded';
    if (taken !== undefined) {
      const mend = 'mount the petstore before any body parser and any setEncoding';
      this.bodyTaken = new TypeError(`the body ${taken} before the petstore could read it; ${mend}`);
      throw this.bodyTaken;
    }
    if (request.destroyed) throw brokenOff();
    const chunks: Buffer[] = [];
    let bytes = 0;
    await new Promise<void>((resolve, reject) => {
      const onData = (chunk: Buffer): void => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > maxBytes) settle(bodyTooLarge(maxBytes));
      };
      const onEnd = (): void => settle();
      const onClose = (): void => settle(brokenOff());
      const settle = (error?: PetstoreError): void => {
        request.off('data', onData).off('end', onEnd).off('close', onClose);
        if (error === undefined) resolve();
        else reject(error);
      };
      // A framework may have paused it.
      request.on('data', onData).on('end', onEnd).on('close', onClose).resume();
    });
    return Buffer.concat(chunks).toString('latin1');
  }

  /** Writes the whole reply, and ends the connection where the reply or an unread body asks for it (C51). */
  send(reply: Reply, isStopping: boolean): void {
    const request = this.#request;
    const response = this.#response;
    // A framework around us may have answered meanwhile, out of patience for one.
    if (response.headersSent || response.writableEnded) return;
    const closes = reply.closes === true || !request.complete || !response.shouldKeepAlive || isStopping;
    response.writeHead(reply.status, wireHeaders({ ...reply, closes }));
    const body = this.method === 'HEAD' ? '' : String(reply.body ?? '');
    if (request.complete) return void response.end(body, 'latin1');
    if (body === '') response.flushHeaders();
    else response.write(body, 'latin1');
    this.#drainAndEnd();
  }

  /** Takes in some of the unread body first: closing at once would reset the reply away (RFC 9112 section 9.6). */
  #drainAndEnd(): void {
    const request = this.#request;
    const response = this.#response;
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
}

/** A request that came through `fetch`. */
function messageOfRequest(request: Request): Message {
  const head = new Head();
  request.headers.forEach((value, name) => head.add(name, value));
  return {
    method: request.method,
    target: targetOf(request.url),
    mountPath: mountPathOf(request),
    startedAt: performance.now(),
    readHead: () => head,
    header: (name) => request.headers.get(name) ?? undefined,
    readBody: (maxBytes) => readBody(request, maxBytes),
  };
}

/** The web platform's form of a reply to a request of this method. */
function responseOf(reply: Reply, method: string): Response {
  const headers = new Headers();
  const lines = wireHeaders(reply);
  for (let i = 0; i < lines.length; i += 2) headers.append(lines[i] ?? '', lines[i + 1] ?? '');
  const body = reply.body === undefined || method === 'HEAD' ? null : Buffer.from(String(reply.body), 'latin1');
  return new Response(body, { status: reply.status, headers });
}

/** A Request has an absolute URL, always; the target is what a client would send of it. */
function targetOf(url: string): string {
  const pathAt = url.indexOf('/', url.indexOf('//') + 2);
  const hashAt = url.indexOf('#', pathAt);
  return url.slice(pathAt, hashAt < 0 ? undefined : hashAt);
}

async function readBody({ body: stream, signal }: Request, maxBytes: number): Promise<string> {
  if (stream === null) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    const reader = stream.getReader();
    // A stream need not hear that its request was given up; reading ends here for it.
    const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined);
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel, { once: true });
    while (bytes <= maxBytes) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!(value instanceof Uint8Array)) throw new TypeError('the body must be of bytes');
      chunks.push(value);
      bytes += value.length;
    }
    cancel();
  } catch (cause) {
    throw unreadable(cause);
  }
  if (signal.aborted) throw unreadable(signal.reason);
  if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
  return Buffer.concat(chunks).toString('latin1');
}

function unreadable(cause: unknown): PetstoreError {
  return new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
}
