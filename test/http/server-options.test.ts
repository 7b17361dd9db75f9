/** Compares the options of Node's servers with those that this version of Node reads (C67). */
import assert from 'node:assert/strict';
import http from 'node:http';
import https from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import tls from 'node:tls';
import { test } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { start } from '../support/fixture.js';

/** Options that stay unset, because Node acts on them only if they are given. */
const unset = {
  http: [],
  // Other forms of a certificate, client certificates, sessions, and callbacks.
  tls: [
    'ALPNCallback',
    'SNICallback',
    'blockList',
    'ca',
    'clientCertEngine',
    'crl',
    'dhparam',
    'passphrase',
    'pfx',
    'privateKeyEngine',
    'privateKeyIdentifier',
    'pskCallback',
    'pskIdentityHint',
    'secureOptions',
    'secureProtocol',
    'sessionIdContext',
    'sessionTimeout',
    'sigalgs',
    'ticketKeys',
  ],
};

/** Wraps options so that `missing` collects each name that is read, but not an own property. */
function watched<Options extends object>(options: Options, missing: Set<string>): Options {
  return new Proxy(options, {
    get(target, name, receiver) {
      if (typeof name === 'string' && !Object.hasOwn(target, name)) missing.add(name);
      return Reflect.get(target, name, receiver);
    },
  });
}

/** Replaces the members of a built-in module, for this file's imports and the petstore's. */
function replace(t: Ending, module: object, members: Readonly<Record<string, unknown>>): void {
  const before = Object.fromEntries(
    Object.keys(members).map((name) => [name, Reflect.get(module, name)]),
  );
  Object.assign(module, members);
  syncBuiltinESMExports();
  atEnd(t, () => {
    Object.assign(module, before);
    syncBuiltinESMExports();
  });
}

test('C67 sets every option that Node reads for a server', async (t) => {
  const missing = new Set<string>();
  const { createServer } = http;
  replace(t, http, {
    createServer: (options: object) => createServer(watched(options, missing)),
  });
  const { petstore } = await start(t);
  await petstore.close();
  assert.deepEqual([...missing].sort(), unset.http);
});

test('C67 sets every option that Node reads for a TLS server and for a new certificate', async (t) => {
  const missing = new Set<string>();
  const { createServer } = https;
  replace(t, https, {
    createServer: (options: object) => {
      // Node's https copies the options, so the options of TLS are read here.
      tls.createServer(watched(options, missing));
      const server = createServer(watched(options, missing));
      const { setSecureContext } = server;
      server.setSecureContext = (context) =>
        setSecureContext.call(server, watched(context, missing));
      return server;
    },
  });
  const { setTls } = await start(t, {}, { tls: newCertificate() });
  setTls(newCertificate());
  assert.deepEqual(
    [...missing].filter((name) => !unset.tls.includes(name)),
    [],
  );
});

test('C67 accepts no TLS before 1.2, whatever the defaults of the process are', async (t) => {
  const seen: tls.SecureContextOptions[] = [];
  const { createServer } = https;
  replace(t, tls, { DEFAULT_MIN_VERSION: 'TLSv1', DEFAULT_MAX_VERSION: 'TLSv1.1' });
  replace(t, https, {
    createServer: (options: https.ServerOptions) => {
      seen.push(options);
      return createServer(options);
    },
  });
  await start(t, {}, { tls: newCertificate() });
  replace(t, tls, { DEFAULT_MIN_VERSION: 'TLSv1.3' });
  await start(t, {}, { tls: newCertificate() });
  assert.deepEqual(
    seen.map(({ minVersion, maxVersion }) => [minVersion, maxVersion]),
    [
      ['TLSv1.2', 'TLSv1.3'],
      ['TLSv1.3', 'TLSv1.3'],
    ],
  );
});
