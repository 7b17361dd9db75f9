// What is no PostgreSQL ends its connection, not the process.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import '../support/built.js';
import { postgresStorage } from '../../dist/postgres/index.js';
import { atEnd } from '../support/at-end.js';
import { makeCertificate } from '../support/certificate.js';

/** The port of a server that does this with each connection. */
async function listening(t: TestContext, serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    serve(socket);
  });
  atEnd(t, () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

/** An authentication of a kind that there is not. */
const noMessage = Buffer.from('R\0\0\0\x08\0\0\0\x63', 'latin1');

test('a server that is no PostgreSQL is one line, without TLS and with it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-socket-'));
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }));
  makeCertificate(folder, 'server');
  const [cert, key] = ['server.crt', 'server.key'].map((name) => readFileSync(join(folder, name)));
  const plain = await listening(t, (socket) => socket.once('data', () => socket.write(noMessage)));
  const secure = await listening(t, (socket) =>
    socket.once('data', () => {
      // What its client asks for first is TLS, and this is a yes.
      socket.write('S');
      const behind = new TLSSocket(socket, { isServer: true, ...(cert && key && { cert, key }) });
      behind.on('error', () => undefined).once('data', () => behind.write(noMessage));
    }),
  );
  for (const [port, mode] of [
    [plain, 'disable'],
    [secure, 'no-verify'],
  ] as const) {
    await assert.rejects(
      postgresStorage(`postgres://u:p@127.0.0.1:${port}/d?sslmode=${mode}`),
      { code: 'storage_unusable', message: /authentication/i },
      mode,
    );
  }
});
