/**
 * Servers that are wrong on purpose: a petstore, and before it a proxy that changes the bytes of
 * requests and answers.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { atEnd, type Ending } from '../support/at-end.js';
import { start } from '../support/fixture.js';

/** What a server does wrong, as a change of the bytes that pass. Each character is a byte. */
export interface Fault {
  readonly request?: (bytes: string) => string;
  /** `request` is what the client sent last on this connection. */
  readonly answer?: (bytes: string, request: string) => string;
  /** Returns a response without an end for some requests; undefined for all others. */
  readonly endless?: (request: string) => EndlessResponse | undefined;
}

/** A response that never ends. Each character is a byte. */
export interface EndlessResponse {
  readonly begin: string;
  /** What follows again and again. */
  readonly repeat: string;
  /** True if one repetition follows every 100 ms, not as many as the client reads. */
  readonly isSlow?: boolean;
}

/** A petstore with a fault, until the test ends; answers its address. */
export async function startWrong(
  t: Ending,
  { request = (bytes) => bytes, answer = (bytes) => bytes, endless = () => undefined }: Fault,
): Promise<string> {
  const { port } = await start(t);
  const sockets = new Set<Socket>();
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let last = '';
    const pass = (from: Socket, to: Socket, change: (bytes: string) => string): void => {
      sockets.add(from.setNoDelay(true).setEncoding('latin1'));
      from.on('data', (bytes: string) => {
        const response = from === client ? endless(bytes) : undefined;
        if (response === undefined) to.write(changed(bytes, change(bytes)), 'latin1');
        else sendEndlessly(client, response);
      });
      // The other side hears of it by the end or the close that follows.
      from.on('error', () => undefined).on('end', () => to.end());
      from.on('close', () => to.destroySoon());
    };
    pass(client, server, (bytes) => {
      last = bytes;
      return request(bytes);
    });
    pass(server, client, (bytes) => answer(bytes, last));
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

/** A message that has changed, with its new length; several in one piece are left as they were. */
function changed(before: string, after: string): string {
  const [head = '', body, ...others] = after.split('\r\n\r\n');
  if (before === after || body === undefined) return after;
  if (others.length > 0) return before;

  // An answer to HEAD has the length of a body that does not come.
  const [, bodyBefore = ''] = before.split('\r\n\r\n');
  const length = bodyBefore === '' ? '$1$2' : `$1${body.length}`;
  return `${head.replace(/(Content-Length: )(\d+)/, length)}\r\n\r\n${body}`;
}
