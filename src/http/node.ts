/**
 * What we lean on inside Node's http, beyond its documents: each hook with Node's function and
 * file, what we rely on there, and the test of test/http that fails when it changes. All were read
 * in Node 20.20, 22.23, 24.21 and 26.10, which differ only where it is said; CI runs the tests on
 * each of the four.
 *
 * The rest of the room calls this by names that need no knowledge of Node's source.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Server, type Socket } from 'node:net';
import { clearTimeout, setTimeout } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { headersTooLarge, requestTooLate } from './head.js';

/**
 * Node's request without its stream: up to 20 % faster (`make bench PARTS=speed`). Its body is
 * handed to `receive` as it comes.
 */
export abstract class NodeRequest extends IncomingMessage {
  declare method: string;

  /**
   * Node's `parserOnIncoming` (lib/_http_server.js) answers a request with an Expect in `headers`
   * by itself. It must find none, for the petstore answers these (C45).
   * Held by conformance: "C45 Expect: 100-continue gets".
   */
  override headers = {};

  /**
   * Node's `clearIncoming` (lib/_http_server.js) adds a listener to each answered request whose
   * stream has not ended; this says that it has.
   * Held by hooks: "whoever observes Node’s responses".
   */
  override readableEnded = false;

  /**
   * What Node keeps its books by. Node's `parserOnIncoming` (lib/_http_server.js) says in its
   * `shouldKeepAlive` what the client wants, and makes no response for a CONNECT.
   * Held by conformance: "C42 a request that is not valid HTTP"; framing: "C42 CONNECT opens no
   * tunnel".
   */
  response: ServerResponse | undefined;

  /** Takes a chunk of the body as it comes, and null at its end. */
  protected abstract receive(chunk: Buffer | null): void;

  /**
   * Node's `parserOnBody` and `parserOnMessageComplete` (lib/_http_common.js) push what the parser
   * has of the body, and null for its end. If this were false, Node would stop reading the socket.
   * Held by hooks: "a body that comes".
   */
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) this.readableEnded = true;
    this.receive(chunk);
    return true;
  }

  /**
   * Node's `resOnFinish` (lib/_http_server.js) calls `_dump` (lib/_http_incoming.js), which has the
   * rest of the stream flow away: here is no stream. From then on Node pushes nothing more. Node 26
   * calls this only where the body has not come whole.
   * Held by hooks: "whoever observes Node’s responses".
   */
  override resume(): this {
    return this;
  }

  /**
   * Whether HTTP ends behind this request. Node's `parserOnIncoming` asks at the head, and its
   * `onParserExecuteCommon` (both lib/_http_server.js) after each packet: of a socket that we have
   * destroyed, the rest of its last packet is not parsed.
   * Held by framing: "C42 CONNECT opens no tunnel"; hooks: "C52 nothing is parsed behind".
   */
  get upgrade(): boolean {
    return this.method === 'CONNECT' || this.socket.destroyed;
  }

  /**
   * Node's `parserOnHeadersComplete` (lib/_http_common.js) says here what its parser makes of an
   * Upgrade header, which is ignored (C42).
   * Held by framing: "C42 nothing behind an upgrade".
   */
  set upgrade(_fromParser: boolean) {}

  /**
   * Says that the answer has left. Node's `resOnFinish` (lib/_http_server.js) listens: it lets go
   * of the request, and tells whoever observes the response. It calls `detachSocket` of the
   * response (lib/_http_server.js), which insists that `_httpMessage` is that response; and where
   * the response was marked as the last one (see `SilentResponse`), `destroySoon` of the socket
   * (lib/net.js), which ends it once all has left. `finished` is its `writableEnded`; its
   * `writableFinished` stays false in Node 24 and 26.
   * Held by hooks: "whoever observes Node’s responses".
   */
  finish(): void {
    if (this.response === undefined || this.socket.destroyed) return;
    this.response.finished = true;
    this.response.emit('finish');
  }
}

/**
 * Node's response, to which nobody writes. Node's `parserOnIncoming` has the responses of a
 * connection wait for the one in `_httpMessage`, and `socketOnEnd` marks the last of them (both
 * lib/_http_server.js). Node's own `assignSocket` says the same and adds a listener, for which its
 * `detachSocket` looks, 0.1 us for each answer.
 * Held by gone-clients: "C52 a client that closes its sending side behind its requests".
 */
export class SilentResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  override assignSocket(socket: Socket & { _httpMessage?: unknown }): void {
    socket._httpMessage = this;
  }

  override detachSocket(socket: Socket & { _httpMessage?: unknown }): void {
    socket._httpMessage = undefined;
  }
}

/** Who is told what Node says of one connection. */
export interface Receiver<Request> {
  /** A request has come: its head at least. */
  accept(request: Request): void;
  /**
   * No request can be read any more, for this error, or because the socket broke. Node says it
   * again for each packet that still comes.
   *
   * @param rawHeaders - The headers of the request, if it is one with an unknown method.
   */
  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void;
  /** Whether no request waits for the one under way: only then is more read of the socket. */
  readonly isCaughtUp: boolean;
  /** True if no request is in flight, and nothing but this packet came after the last one. */
  hasOnly(packet: Buffer): boolean;
}

/** Hands what Node says of each socket to the receiver of that socket. */
export function takeOverServer<Request extends NodeRequest>(
  server: Server,
  receivers: ReadonlyMap<Socket, Receiver<Request> | undefined>,
): void {
  // Node's `socketOnEnd` (lib/_http_server.js) reads this member of the server: a client may close
  // its sending side behind its requests, and still gets its answers.
  // Held by gone-clients: "C52 a client that closes its sending side behind its requests".
  Object.assign(server, { httpAllowHalfOpen: true });

  const accept = (request: Request) => receivers.get(request.socket)?.accept(request);
  server.on('request', (request: Request, response: ServerResponse) => {
    request.response = response;
    accept(request);
  });
  // Node's `onParserExecuteCommon` (lib/_http_server.js) has an event of its own for a CONNECT.
  // Held by framing: "C42 CONNECT opens no tunnel".
  server.on('connect', accept);

  server.on('clientError', (error: ClientError, socket: Socket) => {
    const receiver = receivers.get(socket);
    // To a TLS socket that never shook hands, nothing can be answered.
    if (receiver === undefined) socket.destroy();
    else if (!parseWithoutTabs(server, socket, receiver, error))
      receiver.fail(failureOf(error), headersBehind(error));
  });
}

/**
 * Has the parser read a packet again, with spaces in place of the tabs behind a Content-Length. A
 * tab is legal there (RFC 9110 section 5.6.3), but the parser of Node 20 refuses it. A head that
 * comes in pieces, or behind another request, stays refused.
 *
 * Node's `socketOnClose` (lib/_http_server.js) frees the parser of a socket, and its
 * `connectionListener` gives the socket another one, to which its `socketOnData` hands a packet.
 * Held by framing: "C42 accepts tabs and spaces around".
 *
 * @returns False if there is no such tab, or if this Node has no such functions.
 */
function parseWithoutTabs(
  server: Server,
  socket: Socket,
  receiver: Receiver<never>,
  { code = '', rawPacket }: ClientError,
): boolean {
  if (code !== 'HPE_INVALID_CONTENT_LENGTH' || rawPacket === undefined) return false;
  if (!receiver.hasOnly(rawPacket)) return false;

  const packet = withoutTabs(rawPacket);
  const event = 'encrypted' in socket ? 'secureConnection' : 'connection';
  const begin = server.listeners(event).find(({ name }) => name === 'connectionListener');
  const end = socket.listeners('close').find(({ name }) => name === 'bound socketOnClose');
  if (packet === undefined || begin === undefined || end === undefined) return false;

  for (const name of ['data', 'end', 'close', 'drain'])
    for (const listener of socket.listeners(name))
      if (/^bound socketOn(?:Data|End|Close|Drain)$/.test(listener.name))
        socket.off(name, Object(listener));
  Reflect.apply(end, socket, []);
  Reflect.apply(begin, server, [socket]);
  // The parser that failed is still on the stack.
  void Promise.resolve().then(() => socket.emit('data', packet));
  return true;
}

/** Returns a packet without these tabs in its request head; undefined if there are none. */
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
 * What Node's `socketOnError` and `prepareError` (lib/_http_server.js, lib/_http_common.js) give
 * the event 'clientError': the error of the socket, of the clock, or of the parser (deps/llhttp),
 * with its words for it, the packet, and how far into that it got.
 */
type ClientError = Partial<
  Readonly<{ code: string; reason: string; rawPacket: Buffer; bytesParsed: number }>
>;

/**
 * The error for the client where Node's parser or clock gave a request up (C18, C42 to C44);
 * undefined where the socket broke.
 * Held by conformance: "C44 headers that take over 10 s"; conformance: "C43 a target or header
 * block"; framing: "C42 what is no HTTP"; pipelining: "C52 an error behind a good request".
 */
function failureOf(error: ClientError): PetstoreError | undefined {
  const { code = '', reason = 'malformed' } = error;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTooLate;
  if (code === 'HPE_HEADER_OVERFLOW') return headersTooLarge;
  if (!code.startsWith('HPE_')) return undefined;
  return isUnknownMethod(error)
    ? new PetstoreError('not_implemented', 'This server does not know this method.')
    : new PetstoreError('bad_request', `This is no valid HTTP/1.1: ${reason}.`);
}

/** A request line (RFC 9112 section 3) from within its method on, which is a token. */
const restOfRequestLine = /^[!#$%&'*+.^_`|~\w-]+ [\x21-\x7e]+ HTTP\/1\.[01]\r\n/;

/**
 * Whether the line would be a request if its method were known. The parser stops within a method
 * that it does not know, or at the space behind it. A line that comes in pieces is garbage.
 * Held by conformance: "C18 an unknown method is 501".
 */
function isUnknownMethod({ code, reason, rawPacket, bytesParsed = 0 }: ClientError): boolean {
  // The parser knows the methods of RTSP, and refuses them at the version.
  if (reason === 'Invalid method for HTTP/x.x request') return true;
  const packet = rawPacket?.toString('latin1') ?? '';
  return (
    code === 'HPE_INVALID_METHOD' &&
    [bytesParsed, bytesParsed - 1].some((from) => restOfRequestLine.test(packet.slice(from)))
  );
}

/** Returns the headers of a request with an unknown method, whose head the packet has. */
function headersBehind(error: ClientError): readonly string[] | undefined {
  const { rawPacket, bytesParsed = 0 } = error;
  if (rawPacket === undefined || !isUnknownMethod(error)) return undefined;

  const [, ...lines] = rawPacket.toString('latin1', bytesParsed).split('\r\n');
  const end = lines.indexOf('');
  return lines.slice(0, end < 0 ? 0 : end).flatMap((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, Math.max(colon, 0)), line.slice(colon + 1).trim()];
  });
}

/** Has the receiver decide where Node would act on its socket. */
export function takeOverSocket(socket: Socket, receiver: Receiver<never>): void {
  // Node's TLSSocket (lib/_tls_wrap.js) would end its side with the client's. It is told so only
  // now: one whose client went while it shook hands would be kept until its time is up.
  // Held by gone-clients: "C52 C53 under HTTPS too"; gone-clients: "C48 a TLS client that goes".
  socket.allowHalfOpen = true;

  // Node's `onParserExecuteCommon` (lib/_http_server.js) takes its listener for errors away after
  // a CONNECT, and an error that nobody hears ends the process.
  // Held by framing: "C42 CONNECT opens no tunnel".
  socket.on('error', () => undefined);

  // Node's `parserOnMessageComplete` (lib/_http_common.js) calls `readStart`, which resumes the
  // socket whenever a request has come whole.
  // Held by hooks: "C52 while a request waits".
  socket.on('resume', () => {
    if (!receiver.isCaughtUp) socket.pause();
  });
}

/** How much a client may still send after its last answer (C51). */
const lingerBytes = 65_536;
/** How long the client may still send in most cases. */
export const lingerMs = 1_000;

/**
 * Ends the sending side behind a last text, and takes in some of what still comes: a reset would
 * lose the answer (RFC 9112 section 9.6).
 *
 * @param ms - How long the client may still send.
 */
export function linger(socket: Socket, text: string, ms: number): void {
  let bytes = 0;
  // Node's `generateSocketListenerWrapper` (lib/_http_server.js) takes the socket from the parser
  // as soon as somebody else listens for data: in place of Node's listener, nothing more is parsed.
  // Held by hooks: "C51 nothing is parsed behind an answer that closes".
  socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes >= lingerBytes) socket.destroy();
  });
  socket.resume();

  // The time runs once all has left: whoever reads slowly has the time of an answer.
  socket.end(text, 'latin1', () => {
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), ms).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/** How long what was written may take to leave before the connection is reset. */
const breakOffMs = 20;

/**
 * Resets the connection, once a last text has left. Of TLS there is no reset: it ends without the
 * word that TLS ends with.
 */
export function breakOff(socket: Socket, text: string): void {
  const reset = () => {
    // Node's `resetAndDestroy` (lib/net.js) throws for a socket of TLS.
    if ('encrypted' in socket) socket.destroy();
    else socket.resetAndDestroy();
  };
  if (text === '') reset();
  // A reset takes back what the kernel has not sent yet.
  else socket.write(text, 'latin1', () => setTimeout(reset, breakOffMs));
}

/**
 * Closes the port, and resolves once all of its connections have ended. Node's `httpServerPreClose`
 * (lib/_http_server.js) would first destroy the idle ones, of which one may be just sending; but it
 * alone ends the interval in which Node looks at its times.
 * Held by stopping: "C48 a request that is on its way as the server stops"; hooks: "C48 a port that
 * is closed leaves no timer behind".
 */
export async function closePort(server: Server): Promise<void> {
  await new Promise((resolve) => Server.prototype.close.call(server, resolve));
  server.close();
}
