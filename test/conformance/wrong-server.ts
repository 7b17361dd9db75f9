/**
 * Servers that are wrong on purpose: a petstore, and before it a proxy that changes the bytes of
 * requests and answers.
 */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { createPetstore } from '../../dist/index.js';
import { atEnd, type Ending } from '../support/at-end.js';
import '../support/built.js';

export const key = 'psk_wrong';

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
  const petstore = createPetstore({ keys: [key] });
  atEnd(t, () => petstore.close());
  const { port } = await petstore.listen({ port: 0 });

  const sockets = new Set<Socket>();
  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    for (const socket of [client, server]) {
      sockets.add(socket.setNoDelay(true));
      // The other side hears of it by the end or the close that follows.
      socket.on('error', () => undefined);
    }

    let last = '';
    client.on('data', (chunk) => {
      last = chunk.toString('latin1');
      server.write(changed(last, request(last)), 'latin1');
    });
    server.on('data', (chunk) => {
      const bytes = chunk.toString('latin1');
      client.write(changed(bytes, answer(bytes, last)), 'latin1');
    });
    client.on('end', () => server.end()).on('close', () => server.destroy());
    server.on('end', () => client.end()).on('close', () => client.destroySoon());
  });
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });

  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port: proxyPort } = proxy.address() as AddressInfo;
  return `http://127.0.0.1:${proxyPort}`;
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
