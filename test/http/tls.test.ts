/** Tests of HTTPS: certificates and keys, their replacement, and the shutdown. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import { connect } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { start } from '../support/fixture.js';
import { root, StartedProcess } from '../support/process.js';
import { blockedKeys } from '../support/scenes.js';

/** Returns the SHA-256 of the certificate that a new connection gets. */
async function fingerprint(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  // A request, so that the handshake is complete on the server as well.
  socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  await once(socket.resume(), 'close');
  return fingerprint256;
}

test('setTls replaces the certificate for new connections, and throws for an invalid pair', async (t) => {
  const [tls, other] = [newCertificate(), newCertificate()];
  const { port, setTls } = await start(t, {}, { tls });
  const before = await fingerprint(port);
  assert.throws(() => setTls({ cert: other.cert, key: tls.key }));
  assert.equal(await fingerprint(port), before);
  setTls(other);
  const after = await fingerprint(port);
  assert.notEqual(after, before);
  assert.throws(() => setTls({ cert: 'no PEM', key: other.key }));
  assert.equal(await fingerprint(port), after);
});

/** Pairs that cannot serve HTTPS, each with the message of its error. */
const badPairs = (): Readonly<Record<string, readonly [pair: unknown, message: RegExp]>> => {
  const [ec, other] = [newCertificate(), newCertificate()];
  const [rsa, ed25519] = [newCertificate('rsa:2048'), newCertificate('ed25519')];
  const x25519 = generateKeyPairSync('x25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const encrypted = ec.key.replace(/PRIVATE/g, 'ENCRYPTED PRIVATE');
  const misfit = /^key mismatch: the private key does not belong to the certificate$/;
  const form = /must be PEM, as a string or a Buffer$/;
  return {
    'the key of another certificate': [{ cert: ec.cert, key: other.key }, misfit],
    'an EC certificate and an RSA key': [{ cert: ec.cert, key: rsa.key }, misfit],
    'an RSA certificate and an EC key': [{ cert: rsa.cert, key: ec.key }, misfit],
    'an RSA certificate and an Ed25519 key': [{ cert: rsa.cert, key: ed25519.key }, misfit],
    'an Ed25519 certificate and an EC key': [{ cert: ed25519.cert, key: ec.key }, misfit],
    'a chain whose second certificate is the one of the key': [
      { cert: other.cert + ec.cert, key: ec.key },
      /belongs to certificate 2, .* put the server's own certificate first/,
    ],
    'a chain of another algorithm in the wrong order': [
      { cert: Buffer.from(rsa.cert + other.cert + ec.cert), key: Buffer.from(ec.key) },
      /belongs to certificate 3, /,
    ],
    'a chain of certificates with the older label in the wrong order': [
      { cert: (other.cert + ec.cert).replaceAll('CERT', 'X509 CERT'), key: ec.key },
      /belongs to certificate 2, /,
    ],
    'a chain with a broken certificate': [
      { cert: `${ec.cert}${other.cert.slice(0, 100)}`, key: ec.key },
      /^the certificate or its key cannot be used: /,
    ],
    'a key with a passphrase': [{ cert: ec.cert, key: encrypted }, /has a passphrase/],
    'a key that cannot sign': [
      { cert: ec.cert, key: x25519 },
      /^a key of type x25519 cannot serve TLS: use one of rsa, /,
    ],
    'a key of a curve that TLS does not have': [
      newCertificate('ec -pkeyopt ec_paramgen_curve:secp256k1'),
      /^a key of curve secp256k1 cannot serve TLS: use prime256v1$/,
    ],
    'no PEM': [{ cert: 'none', key: ec.key }, /^the certificate is not valid PEM: /],
    'a certificate in place of the key': [
      { cert: ec.cert, key: ec.cert },
      /^the private key is not valid PEM: /,
    ],
    'no members': [{}, form],
    'an empty certificate': [{ cert: '', key: ec.key }, /^cert of tls must be PEM/],
    'no key': [{ cert: ec.cert }, /^key of tls must be PEM/],
    'an unknown member': [{ ...ec, passphrase: 'x' }, /^option of tls passphrase is unknown/],
    null: [null, /^tls must be an object with cert and key$/],
    false: [false, /^tls must be an object with cert and key$/],
  };
};

test('C65 rejects a certificate and key that cannot serve HTTPS with a TypeError', async (t) => {
  const tls = newCertificate();
  const { petstore, port, setTls } = await start(t, {}, { tls });
  const before = await fingerprint(port);

  for (const [what, [pair, message]] of Object.entries(badPairs())) {
    const expected = { name: 'TypeError', message };
    await assert.rejects(petstore.listen(Object({ port: 0, tls: pair })), expected, what);
    assert.throws(() => Reflect.apply(setTls, undefined, [pair]), expected, what);
  }
  assert.equal(await fingerprint(port), before);
});

for (const algorithm of [
  'rsa:2048',
  'ed25519',
  'ec -pkeyopt ec_paramgen_curve:secp384r1',
  'rsa-pss -pkeyopt rsa_keygen_bits:2048',
])
  test(`serves HTTPS with a key of ${algorithm}, with PEM in separate or common files`, async (t) => {
    const { cert, key } = newCertificate(algorithm);
    const { port, setTls } = await start(t, {}, { tls: { cert, key } });
    const before = await fingerprint(port);
    for (const both of [cert + key, key + cert]) {
      setTls({ cert: both, key: Buffer.from(both) });
      assert.equal(await fingerprint(port), before);
    }
  });

test('setTls throws a TypeError for a port without TLS', async (t) => {
  const { setTls } = await start(t);
  assert.throws(() => setTls(newCertificate()), TypeError);
});

test('close ends connections without a handshake at once, and finishes a request in flight', async (t) => {
  const { keys, verifying, unblock } = blockedKeys();
  const { petstore, port } = await start(t, { keys }, { tls: newCertificate() });
  const silent = connectPlain({ port, host: '127.0.0.1' }).resume();
  atEnd(t, () => silent.destroy());
  await once(silent, 'connect');
  const silentEnds = once(silent, 'close');
  const busy = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  atEnd(t, () => busy.destroy());
  let response = '';
  busy.setEncoding('latin1').on('data', (text: string) => (response += text));
  const busyEnds = once(busy, 'close');
  busy.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\n\r\n');
  await verifying;

  const since = performance.now();
  const closed = petstore.close();
  await silentEnds;
  // Longer than the time after which idle connections are closed.
  await sleep(500);
  assert.ok(!busy.destroyed);
  unblock();
  await Promise.all([closed, busyEnds]);
  const closedMs = performance.now() - since;
  assert.match(response, /^HTTP\/1\.1 200 [\s\S]*\[\]$/);
  assert.ok(closedMs < 4_000, `closed after ${closedMs} ms`);
});

test('releases the sockets of connections that end before their TLS handshake', async () => {
  const tls = newCertificate();
  const script = `
    import { createPetstore } from ${JSON.stringify(import.meta.resolve('../../dist/index.js'))};
    import { once } from 'node:events';
    import { subscribe } from 'node:diagnostics_channel';
    import { connect } from 'node:net';
    import { setTimeout } from 'node:timers/promises';
    const sockets = [];
    subscribe('net.server.socket', ({ socket }) => sockets.push(new WeakRef(socket)));
    const petstore = createPetstore({ keys: ['k'] });
    const { port } = await petstore.listen({ port: 0, tls: ${JSON.stringify(tls)} });
    for (let count = 0; count < 50; count++) {
      const client = connect(port, '127.0.0.1');
      await once(client, 'connect');
      await once(client.destroy(), 'close');
    }
    const kept = () => (gc(), sockets.filter((each) => each.deref() !== undefined).length);
    for (let tries = 0; tries < 100 && (sockets.length < 50 || kept() > 10); tries++)
      await setTimeout(10);
    console.log(JSON.stringify({ accepted: sockets.length, keepsMany: kept() > 10 }));
    await petstore.close();`;
  // Node itself may still hold a few of the 50 sockets.
  const args = ['--expose-gc', '--input-type=module', '-e', script];
  const { stdout, stderr } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  assert.equal(stderr, '');
  assert.deepEqual(JSON.parse(stdout), { accepted: 50, keepsMany: false });
});
