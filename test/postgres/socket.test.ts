// A socket whose reader throws has failed; the process goes on.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { DriverSocket } from '../../build/storage/postgres/socket.js';
import { atEnd } from '../at-end.js';

test('what the reader of a socket throws ends the socket as an error of its own, and nothing else', async (t) => {
  const server = createServer((socket) => socket.on('error', () => undefined).write('garbage'));
  atEnd(t, () => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const socket = new DriverSocket();
  socket.on('data', () => {
    throw new RangeError('no message of PostgreSQL');
  });
  socket.connect(address.port, '127.0.0.1');
  const error = await new Promise((resolve) => socket.once('error', resolve));
  assert.ok(error instanceof RangeError);
  assert.equal(socket.destroyed, true);
});
