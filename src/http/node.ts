/**
 * Each undocumented behaviour of Node's HTTP server that the petstore relies on. An entry says what
 * is relied on, the function and file of Node, the major versions in which that code was read
 * (20.20, 22.23, 24.21, 26.10), and the test of test/http that fails if the behaviour changes. CI
 * runs the tests on each of these versions. Other modules use the exports without knowing Node's
 * source.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Server, type Socket } from 'node:net';
import { clearTimeout, setTimeout } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { headersTooLarge, requestTimeout } from './head.js';

/**
 * Node's request, with `receive` in place of its stream. That is up to 20 % faster (`make bench
 * PARTS=speed`).
 */
export abstract class NodeRequest extends IncomingMessage {
  declare method: string;

  /**
   * True once the body is complete. Otherwise Node would wait for the end of the stream by a
   * listener on each request.
   * Node: `clearIncoming` (lib/_http_server.js) in 20, 22, 24, 26.
   * Held by hooks: "publishes each response to Node’s observers".
   */
  override readableEnded = false;

  /**
   * Node's response object. Node creates none for CONNECT.
   * Node: `parserOnIncoming` (lib/_http_server.js) in 20, 22, 24, 26.
   * Held by conformance: "C42 a request that is not valid HTTP"; framing: "C42 opens no tunnel for
   * CONNECT".
   */
  response: ServerResponse | undefined;

  /** Receives each chunk of the body, then null. */
  protected abstract receive(chunk: Buffer | null): void;

  /**
   * Node's parser calls this with each chunk of the body, then with null. If the result were false,
   * Node would stop reading the socket.
   * Node: `parserOnBody` and `parserOnMessageComplete` (lib/_http_common.js) in 20, 22, 24, 26.
   * Held by hooks: "reads a whole body that arrives".
   */
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) this.readableEnded = true;
    this.receive(chunk);
    return true;
  }

  /**
   * Does nothing. After a response Node discards the rest of the body by this method, but there is
   * no stream to read. Node 26 calls it only if the body is incomplete.
   * Node: `resOnFinish` (lib/_http_server.js) and `_dump` (lib/_http_incoming.js) in 20, 22, 24,
   * 26.
   * Held by hooks: "publishes each response to Node’s observers".
   */
  override resume(): this {
    return this;
  }

  /**
   * Does nothing. Node destroys the requests of a closed connection, but there is no stream to end.
   */
  override destroy(): this {
    return this;
  }

  /**
   * True if Node must stop parsing after this request: after CONNECT, and once the socket is
   * destroyed. Node reads it after the head and after each packet.
   * Node: `parserOnIncoming` and `onParserExecuteCommon` (lib/_http_server.js) in 20, 22, 24, 26.
   * Held by framing: "C42 opens no tunnel for CONNECT"; hooks: "C52 parses nothing after".
   */
  get upgrade(): boolean {
    return this.method === 'CONNECT' || this.socket.destroyed;
  }

  /**
   * Ignores the value that Node's parser sets for an Upgrade header (C42).
   * Node: `parserOnHeadersComplete` (lib/_http_common.js) in 20, 22, 24, 26.
   * Held by framing: "C42 ignores Upgrade".
   */
  set upgrade(_fromParser: boolean) {}

  /**
   * Tells Node that the response was sent. Node then releases the request, publishes the response
   * on its diagnostics channel, and detaches the socket. If the response is marked as the last one
   * (see `SilentResponse`), Node also ends the socket. `finished` makes `writableEnded` true;
   * `writableFinished` stays false in Node 24 and 26.
   * Node: `resOnFinish` (lib/_http_server.js) and `destroySoon` (lib/net.js) in 20, 22, 24, 26.
   * Held by hooks: "publishes each response to Node’s observers".
   */
  finishResponse(): void {
    if (this.response === undefined || this.socket.destroyed) return;
    this.response.finished = true;
    this.response.emit('finish');
  }
}

/**
 * Node's response, to which nothing is written. Node stores the current response of a socket in
 * `_httpMessage`, and marks the last response once the client has closed its sending side. These
 * two methods omit the listener of Node's own, which takes 0.1 µs a response.
 * Node: `parserOnIncoming`, `socketOnEnd`, `assignSocket`, `detachSocket` (lib/_http_server.js) in
 * 20, 22, 24, 26.
 * Held by gone-clients: "C52 sends all responses to a client that closed".
 */
export class SilentResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  override assignSocket(socket: Socket & { _httpMessage?: unknown }): void {
    socket._httpMessage = this;
  }

  override detachSocket(socket: Socket & { _httpMessage?: unknown }): void {
    socket._httpMessage = undefined;
  }
}

/** Handles the events of Node's server for one connection. */
export interface ConnectionHandler<Request> {
  /** Receives a request, of which at least the head has arrived. */
  accept(request: Request): void;
  /**
   * Receives the error after which no further request can be read; undefined if the socket failed.
   * Node repeats it for each later packet.
   * @param rawHeaders The headers, if it is a request with an unknown method.
   */
  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void;
  /** True if no request waits for the one in flight. Otherwise the socket is not read. */
  readonly isQueueEmpty: boolean;
  /** True if no request is in flight, and only this packet came after the previous request. */
  hasReceivedOnly(packet: Buffer): boolean;
}

/** Passes the events of Node's server to the handler of each connection. */
export function takeOverServer<Request extends NodeRequest>(
  server: Server,
  handlers: ReadonlyMap<Socket, ConnectionHandler<Request> | undefined>,
): void {
  // A client that closes its sending side still gets its responses, because Node reads this member.
  // Node: `socketOnEnd` (lib/_http_server.js) in 20, 22, 24, 26.
  // Held by gone-clients: "C52 sends all responses to a client that closed".
  Object.assign(server, { httpAllowHalfOpen: true });

  const accept = (request: Request) => handlers.get(request.socket)?.accept(request);
  // The petstore itself responds to Expect (C45).
  for (const event of ['request', 'checkContinue', 'checkExpectation'])
    server.on(event, (request: Request, response: ServerResponse) => {
      request.response = response;
      accept(request);
    });
  // A CONNECT has an event of its own.
  // Node: `onParserExecuteCommon` (lib/_http_server.js) in 20, 22, 24, 26.
  // Held by framing: "C42 opens no tunnel for CONNECT".
  server.on('connect', accept);

  server.on('clientError', (error: ClientError, socket: Socket) => {
    const handler = handlers.get(socket);
    // A TLS socket without a completed handshake has no handler, and no response can be sent.
    if (handler === undefined) socket.destroy();
    else if (!parseWithoutTabs(server, socket, handler, error))
      handler.fail(toPetstoreError(error, socket), headersOfUnknownMethod(error));
  });
}

/**
 * Parses a packet again, with spaces in place of tabs after a Content-Length. A tab is legal there
 * (RFC 9110 section 5.6.3), but the parser of Node 20 rejects it. A head in several packets, or
 * after another request, is still rejected.
 *
 * The socket needs a new parser: `socketOnClose` frees the old one, `connectionListener` attaches
 * a new one, and `socketOnData` passes the packet to it.
 * Node: these three functions (lib/_http_server.js) in 20, 22, 24, 26.
 * Held by framing: "C42 accepts tabs and spaces around".
 * @returns False if there is no such tab, or if this version of Node has no such functions.
 */
function parseWithoutTabs(
  server: Server,
  socket: Socket,
  handler: ConnectionHandler<never>,
  { code = '', rawPacket }: ClientError,
): boolean {
  if (code !== 'HPE_INVALID_CONTENT_LENGTH' || rawPacket === undefined) return false;
  if (!handler.hasReceivedOnly(rawPacket)) return false;

  const packet = withoutTabs(rawPacket);
  const event = 'encrypted' in socket ? 'secureConnection' : 'connection';
  const attach = server.listeners(event).find(({ name }) => name === 'connectionListener');
  const detach = socket.listeners('close').find(({ name }) => name === 'bound socketOnClose');
  if (packet === undefined || attach === undefined || detach === undefined) return false;

  for (const name of ['data', 'end', 'close', 'drain'])
    for (const listener of socket.listeners(name))
      if (/^bound socketOn(?:Data|End|Close|Drain)$/.test(listener.name))
        socket.off(name, Object(listener));
  Reflect.apply(detach, socket, []);
  Reflect.apply(attach, server, [socket]);
  // In a microtask, because the failed parser is still on the stack.
  void Promise.resolve().then(() => socket.emit('data', packet));
  return true;
}

/** Returns a packet with spaces in place of these tabs; undefined if its head has none. */
function withoutTabs(packet: Buffer): Buffer | undefined {
  const text = packet.toString('latin1');
  const [head = ''] = text.split('\r\n\r\n', 1);
  const lines = head.split('\r\n').map((line) => {
    if (!/^content-length:/i.test(line)) return line;
    let length = line.length;
    while (line[length - 1] === '\t' || line[length - 1] === ' ') length--;
    return line.slice(0, length).padEnd(line.length);
  });

  const without = lines.join('\r\n');
  return without === head ? undefined : Buffer.from(without + text.slice(head.length), 'latin1');
}

/**
 * The error of the event 'clientError': of the socket, of a timeout, or of the parser. A parser
 * error has its reason in words, the packet, and the position in the packet.
 * Node: `socketOnError` (lib/_http_server.js), `prepareError` (lib/_http_common.js) and deps/llhttp
 * in 20, 22, 24, 26.
 * Held by framing: "C42 rejects malformed requests".
 */
export type ClientError = Partial<
  Readonly<{ code: string; reason: string; rawPacket: Buffer; bytesParsed: number }>
>;

/**
 * Returns the error for the client of a request that Node rejected (C18, C42 to C44); undefined if
 * the socket failed. The parser's errors have a code of their own or the packet. Any other error of
 * an open socket is that of a late head.
 * Node: `onRequestTimeout` (lib/_http_server.js) and deps/llhttp in 20, 22, 24, 26.
 * Held by slow: "C44 gives a"; conformance: "C43 a target or header block"; framing: "C42 rejects
 * malformed requests"; pipelining: "C52 responds to a good request, then".
 */
export function toPetstoreError(error: ClientError, socket: Socket): PetstoreError | undefined {
  const { code = '', reason = 'malformed', rawPacket } = error;
  if (code === 'HPE_HEADER_OVERFLOW') return headersTooLarge;
  if (!code.startsWith('HPE_') && rawPacket === undefined)
    return socket.destroyed ? undefined : requestTimeout;
  return isUnknownMethod(error)
    ? new PetstoreError('not_implemented', 'This server does not know this method.')
    : new PetstoreError('bad_request', `The request is not valid HTTP/1.1: ${reason}.`);
}

/** The rest of a request line (RFC 9112 section 3), from a position within its method. */
const restOfRequestLine = /^[!#$%&'*+.^_`|~\w-]+ [\x21-\x7e]+ HTTP\/1\.[01]\r\n/;

/**
 * True if a rejected request line is valid, except that its method is unknown (C18). The parser
 * stops within an unknown method, or at the space after it. A line in several packets is malformed.
 * Node: deps/llhttp in 20, 22, 24, 26.
 * Held by conformance: "C18 an unknown method is 501".
 */
function isUnknownMethod({ code, reason, rawPacket, bytesParsed = 0 }: ClientError): boolean {
  // The parser knows the methods of RTSP, and rejects them at the version.
  if (reason === 'Invalid method for HTTP/x.x request') return true;
  const packet = rawPacket?.toString('latin1') ?? '';
  return (
    code === 'HPE_INVALID_METHOD' &&
    [bytesParsed, bytesParsed - 1].some((from) => restOfRequestLine.test(packet.slice(from)))
  );
}

/** Returns the headers of a request with an unknown method, as far as the packet has them. */
export function headersOfUnknownMethod(error: ClientError): readonly string[] | undefined {
  const { rawPacket, bytesParsed = 0 } = error;
  if (rawPacket === undefined || !isUnknownMethod(error)) return undefined;

  const [, ...lines] = rawPacket.toString('latin1', bytesParsed).split('\r\n');
  const end = lines.indexOf('');
  return lines.slice(0, end < 0 ? 0 : end).flatMap((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, Math.max(colon, 0)), line.slice(colon + 1).trim()];
  });
}

/** Changes what Node does by itself on a new socket. */
export function takeOverSocket(socket: Socket, handler: ConnectionHandler<never>): void {
  // A TLS socket stays open for responses after the client has closed its sending side. Set after
  // the handshake, because a client that leaves during the handshake would block its socket.
  // Node: `TLSSocket` (lib/_tls_wrap.js) in 20, 22, 24, 26.
  // Held by gone-clients: "C52 C53 sends the response to a TLS client"; gone-clients: "C48 closes
  // promptly although TLS clients".
  socket.allowHalfOpen = true;

  // After CONNECT, Node removes its own error listener. Without a listener, an error of the socket
  // would crash the process.
  // Node: `onParserExecuteCommon` (lib/_http_server.js) in 20, 22, 24, 26.
  // Held by framing: "C42 opens no tunnel for CONNECT".
  socket.on('error', () => undefined);

  // Node resumes the socket after each complete request, so it is paused again.
  // Node: `parserOnMessageComplete` and `readStart` (lib/_http_common.js) in 20, 22, 24, 26.
  // Held by hooks: "C52 stops reading the socket".
  socket.on('resume', () => {
    if (!handler.isQueueEmpty) socket.pause();
  });
}

/** The number of bytes that are read after the last response of a connection (C51). */
const maxLingerBytes = 65_536;
/** The default time for which a connection is read after its last response (C51). */
export const lingerMs = 1_000;

/**
 * Writes a last text, closes the sending side, and goes on reading for a while. If the server
 * closed the socket at once, the client would get a reset and lose the response (RFC 9112 section
 * 9.6).
 * @param ms The time for which the socket is read, once the text is sent.
 */
export function lingeringClose(socket: Socket, text: string, ms: number): void {
  let bytes = 0;
  // Node detaches the parser from a socket that gets another listener for data. Without Node's own
  // listener, nothing more is parsed.
  // Node: `generateSocketListenerWrapper` (lib/_http_server.js) in 20, 22, 24, 26.
  // Held by hooks: "C51 parses nothing after a response that closes".
  socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes >= maxLingerBytes) socket.destroy();
  });
  socket.resume();

  // The time starts once all is sent. Until then the limits for a slow reader apply (C44).
  socket.end(text, 'latin1', () => {
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), ms).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/** The time for which the kernel may send the last text before the connection is reset. */
const resetDelayMs = 20;

/**
 * Sends a last text and resets the connection. A TLS connection is not reset, but ends without the
 * `close_notify` of TLS (C62).
 */
export function resetAfter(socket: Socket, text: string): void {
  const reset = () => {
    // Node's `resetAndDestroy` throws for a TLS socket.
    if ('encrypted' in socket) socket.destroy();
    else socket.resetAndDestroy();
  };
  if (text === '') reset();
  // A reset drops what the kernel has not sent yet.
  else socket.write(text, 'latin1', () => setTimeout(reset, resetDelayMs));
}

/**
 * Closes the port, and resolves once all of its connections are closed. Node's own `close` would
 * first destroy the idle connections, but a request may be arriving on one of them. It is called
 * afterwards, because only it stops the interval that checks Node's timeouts.
 * Node: `httpServerPreClose` (lib/_http_server.js) in 20, 22, 24, 26.
 * Held by stopping: "C48 serves a request that arrives on an idle connection"; hooks: "C48 leaves
 * no timer".
 */
export async function closePort(server: Server): Promise<void> {
  await new Promise((resolve) => Server.prototype.close.call(server, resolve));
  server.close();
}
