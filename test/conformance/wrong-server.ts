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
}

/** A petstore with a fault, until the test ends; answers its address. */
export async function startWrong(
  t: Ending,
  { request = (bytes) => bytes, answer = (bytes) => bytes }: Fault,
): Promise<string> {
  const { port } = await start(t);
  const sockets = new Set<Socket>();
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let last = '';
    const pass = (from: Socket, to: Socket, change: (bytes: string) => string): void => {
      sockets.add(from.setNoDelay(true).setEncoding('latin1'));
      from.on('data', (bytes: string) => to.write(changed(bytes, change(bytes)), 'latin1'));
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
