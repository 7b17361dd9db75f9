// Tests HTTPS: valid certificates, invalid certificates, and renewal by SIGHUP.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect } from 'node:tls';
import { describe } from 'node:test';
import { newCertificate } from '../support/certificate.js';
import { requestBytes } from '../support/fixture.js';
import { apiKey, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testInFolder, testRefusals } from '../support/working-folder.js';

const [one, two, rsa] = [newCertificate(), newCertificate(), newCertificate('rsa:2048')];
const files = { 'one.crt': one.cert, 'one.key': one.key, 'two.crt': two.cert, 'two.key': two.key };
const replaced = '--tls-cert cert.pem --tls-key key.pem --storage memory:';

/** Asserts that a new connection gets this certificate and a response. */
async function assertServes({ url }: StartedServer, { cert }: typeof one): Promise<void> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', ca: cert });
  socket.write(requestBytes('GET', '/v1/pets', { authorization: `Bearer ${apiKey}` }));
  try {
    const [bytes] = await once(socket, 'data');
    assert.ok(socket.getPeerCertificate().raw.equals(new X509Certificate(cert).raw));
    assert.match(String(bytes), /^HTTP\/1\.1 200 OK\r\n/);
  } finally {
    socket.destroy();
  }
}

describe('HTTPS', { concurrency: 4 }, () => {
  testInFolder(
    'serves HTTPS with PETSTORE_TLS_CERT and PETSTORE_TLS_KEY, also for the command of --dev',
    files,
    async (here) => {
      const server = await here.start(
        'PETSTORE_TLS_CERT=one.crt PETSTORE_TLS_KEY=one.key --dev --storage memory:',
      );
      await assertServes(server, one);
      const line = await until('the curl line', () => /^curl .*\n/m.exec(server.stdout)?.[0]);
      const { code, stdout } = await here.shell(line).ended;
      assert.equal(code, 0);
      assert.match(stdout, /^\{"id":1,/);
      await server.stopCleanly();
    },
  );

  testInFolder(
    'serves a new certificate after SIGHUP, or keeps the old one and logs the reason',
    { 'cert.pem': one.cert, 'key.pem': one.key },
    async (here) => {
      const server = await here.start(replaced);
      assert.match(server.url, /^https:/);
      await assertServes(server, one);
      here.write('cert.pem', two.cert);
      server.signal('SIGHUP');
      const { level, error } = await server.waitForLog(
        'the TLS files cannot be used; the old pair stays in use',
      );
      assert.equal(level, 'warn');
      assert.match(
        String(error),
        /^--tls-cert cert\.pem and --tls-key key\.pem do not serve HTTPS \(.*mismatch/,
      );
      await assertServes(server, one);
      here.write('key.pem', two.key);
      server.signal('SIGHUP');
      await server.waitForLog('TLS files read again');
      await assertServes(server, two);
      await server.stopCleanly();
    },
  );

  testInFolder(
    'keeps the old certificate for a key of another algorithm, a wrong order and a pipe',
    { 'cert.pem': one.cert, 'key.pem': one.key },
    async (here) => {
      const server = await here.start(replaced);
      const errors = (): readonly string[] =>
        server.log
          .filter(({ msg }) => msg === 'the TLS files cannot be used; the old pair stays in use')
          .map(({ error }) => String(error));

      const bad: readonly (readonly [change: () => void, message: RegExp])[] = [
        [() => here.write('cert.pem', rsa.cert), /do not serve HTTPS \(key mismatch/],
        [() => here.write('cert.pem', two.cert + one.cert), /certificate 2, not to the first/],
        [
          () => {
            rmSync(here.at('cert.pem'));
            execFileSync('mkfifo', [here.at('cert.pem')]);
          },
          /^--tls-cert cert\.pem cannot be read \(cert\.pem is not a regular file\)/,
        ],
      ];
      for (const [index, [change, message]] of bad.entries()) {
        change();
        server.signal('SIGHUP');
        await until('the reason', () => errors().length > index);
        assert.match(errors()[index] ?? '', message);
        await assertServes(server, one);
      }
      await server.stopCleanly();
    },
  );

  testInFolder(
    'serves a certificate that SIGHUP read while a plugin was still opening',
    async (here) => {
      const slow = `import { existsSync } from 'node:fs';
      import { setTimeout as wait } from 'node:timers/promises';
      export default async ({ log }) => {
        await wait(0);
        log('info', 'the plugin opens');
        while (!existsSync('go')) await wait(10);
      };`;
      here.write('cert.pem', one.cert);
      here.write('key.pem', one.key);
      here.write('slow.mjs', slow);
      const server = here.begin(`${replaced} --plugin ./slow.mjs`);
      await server.waitForLog('the plugin opens');
      here.write('cert.pem', two.cert);
      here.write('key.pem', two.key);
      server.signal('SIGHUP');
      await server.waitForLog('TLS files read again');
      here.write('go', '');
      await server.waitForLog('listening');
      await assertServes(server, two);
      await server.stopCleanly();
    },
  );

  const half = /give both --tls-cert FILE and --tls-key FILE/;
  const unserved = /^--tls-cert .* and --tls-key .* do not serve HTTPS .*PEM/;
  testRefusals(
    {
      // a certificate without a key
      '--tls-cert one.crt': half,
      // a key without a certificate
      '--tls-key one.key': half,
      // a missing certificate
      '--tls-cert none.crt --tls-key one.key':
        /^--tls-cert none\.crt cannot be read \(no such file or directory\); name a PEM file/,
      // a missing key
      '--tls-cert one.crt --tls-key none.key': /^--tls-key none\.key cannot be read \(no such file/,
      // an invalid certificate
      '--tls-cert bad.pem --tls-key one.key': unserved,
      // an invalid key
      '--tls-cert one.crt --tls-key bad.pem': unserved,
      // an empty certificate
      '--tls-cert empty.pem --tls-key one.key': unserved,
      // a device
      '--tls-cert /dev/null --tls-key one.key': /^--tls-cert .*\/dev\/null is not a regular file/,
      // a folder
      '--tls-cert one.crt --tls-key .': /^--tls-key .*\. is not a regular file/,
      // an endless file
      '--tls-cert /proc/self/pagemap --tls-key one.key': /longer than 1048576 bytes/,
      // the key of another certificate
      '--tls-cert one.crt --tls-key two.key': unserved,
      // the key of another algorithm
      '--tls-cert one.crt --tls-key rsa.key': unserved,
      '--tls-cert rsa.crt --tls-key one.key': unserved,
      // a chain in the wrong order
      '--tls-cert order.pem --tls-key one.key':
        /belongs to certificate 2, .* put the server's own certificate first, and its chain/,
    },
    {
      ...files,
      'rsa.crt': rsa.cert,
      'rsa.key': rsa.key,
      'order.pem': two.cert + one.cert,
      'bad.pem': 'no PEM at all',
      'empty.pem': '',
    },
  );
});
