// Starts servers that are wrong on purpose: a petstore behind a proxy that changes requests and
// responses.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { atEnd, type Ending } from '../support/at-end.js';
import { start } from '../support/fixture.js';

/** A fault of a server: functions that change its messages, which are byte strings. */
export interface Fault {
  /** Changes a request. */
  readonly request?: (bytes: string) => string;
  /** Changes a response. `request` is what the client sent last on the connection. */
  readonly response?: (bytes: string, request: string) => string;
  /** The port of the petstore behind the proxy. By default a new one is started. */
  readonly port?: number;
  /** The clock of the new petstore. By default it is that of the machine. */
  readonly clock?: () => number;
  /** Returns a response without an end for some requests; undefined for all others. */
  readonly endless?: (request: string) => EndlessResponse | undefined;
}

/** A response that never ends, in byte strings. */
export interface EndlessResponse {
  readonly begin: string;
  /** The bytes that follow `begin` over and over. */
  readonly repeat: string;
  /** True to send one repetition every 100 ms, instead of as many as the client reads. */
  readonly isSlow?: boolean;
}

/** Starts a petstore with a fault until the test ends, and returns its URL. */
export async function startWrong(
  t: Ending,
  {
    request = (bytes) => bytes,
    response = (bytes) => bytes,
    endless = () => undefined,
    port: portOfOther,
    clock = Date.now,
  }: Fault,
): Promise<string> {
  const port = portOfOther ?? (await start(t, { clock })).port;
  const sockets = new Set<Socket>();
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let last = '';
    const pass = (from: Socket, to: Socket, change: (bytes: string) => string): void => {
      sockets.add(from.setNoDelay(true).setEncoding('latin1'));
      from.on('data', (bytes: string) => {
        const endlessResponse = from === client ? endless(bytes) : undefined;
        if (endlessResponse === undefined) to.write(changed(bytes, change(bytes)), 'latin1');
        else sendEndlessly(client, endlessResponse);
      });
      // After an error follows `close`, which the other side gets too.
      from.on('error', () => undefined).on('end', () => to.end());
      from.on('close', () => to.destroySoon());
    };
    pass(client, server, (bytes) => {
      last = bytes;
      return request(bytes);
    });
    pass(server, client, (bytes) => response(bytes, last));
  });
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });

  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${Object(proxy.address()).port}`;
}

/** Sends a response until the client closes the connection. */
function sendEndlessly(client: Socket, { begin, repeat, isSlow = false }: EndlessResponse): void {
  client.write(begin, 'latin1');
  if (isSlow) {
    const timer = setInterval(() => client.write(repeat, 'latin1'), 100);
    client.once('close', () => clearInterval(timer));
    return;
  }

  const block = Buffer.from(repeat.repeat(Math.ceil(65_536 / repeat.length)), 'latin1');
  const send = (): void => {
    while (!client.destroyed && client.write(block));
  };
  client.on('drain', send);
  send();
}

/** Returns a changed message with its new Content-Length. Keeps several messages unchanged. */
function changed(before: string, after: string): string {
  const [head = '', body, ...others] = after.split('\r\n\r\n');
  if (before === after || body === undefined) return after;
  if (others.length > 0) return before;

  // A response to HEAD has the length of a body that does not follow.
  const [, bodyBefore = ''] = before.split('\r\n\r\n');
  const length = bodyBefore === '' ? '$1$2' : `$1${body.length}`;
  return `${head.replace(/(Content-Length: )(\d+)/, length)}\r\n\r\n${body}`;
}
