/** HTTPS as a library: another certificate under a server that listens. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import { connect } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { start } from '../support/fixture.js';
import { heldKeys } from '../support/scenes.js';

/** The SHA-256 of the certificate that a new connection is shown. */
async function shown(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  // One that goes before the server has shaken hands too is waited for when it closes.
  socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  await once(socket.resume(), 'close');
  return fingerprint256;
}

test('setTls serves new connections with another certificate; a bad pair throws and changes nothing', async (t) => {
  const [tls, other] = [newCertificate(), newCertificate()];
  const { port, setTls } = await start(t, {}, { tls });
  const before = await shown(port);
  assert.throws(() => setTls({ cert: other.cert, key: tls.key }));
  assert.equal(await shown(port), before);
  setTls(other);
  const after = await shown(port);
  assert.notEqual(after, before);
  assert.throws(() => setTls({ cert: 'no PEM', key: other.key }));
  assert.equal(await shown(port), after);
});

test('setTls of a port without TLS is a TypeError', async (t) => {
  const { setTls } = await start(t);
  assert.throws(() => setTls(newCertificate()), TypeError);
});

test('close soon ends a connection that never shook hands, and none that is at work', async (t) => {
  const { keys, asked, letIn } = heldKeys();
  const { petstore, port } = await start(t, { keys }, { tls: newCertificate() });
  const silent = connectPlain({ port, host: '127.0.0.1' }).resume();
  atEnd(t, () => silent.destroy());
  await once(silent, 'connect');
  const silentEnds = once(silent, 'close');
  const busy = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  atEnd(t, () => busy.destroy());
  let answer = '';
  busy.setEncoding('latin1').on('data', (text: string) => (answer += text));
  const busyEnds = once(busy, 'close');
  busy.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\n\r\n');
  await asked;

  const since = performance.now();
  const closed = petstore.close();
  await silentEnds;
  // The request under way outlasts the moment at which those without one were ended.
  await sleep(500);
  assert.ok(!busy.destroyed);
  letIn();
  await Promise.all([closed, busyEnds]);
  const closedMs = performance.now() - since;
  assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*\[\]$/);
  assert.ok(closedMs < 4_000, `closed after ${closedMs} ms`);
});
