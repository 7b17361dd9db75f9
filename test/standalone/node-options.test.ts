// Tests C67: NODE_OPTIONS cannot weaken the HTTP parser or TLS.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type SecureVersion } from 'node:tls';
import { describe } from 'node:test';
import { malformedRequests } from '../../dist/conformance/malformed-requests.js';
import { newCertificate } from '../support/certificate.js';
import { assertError } from '../support/client.js';
import { requestBytes, exchange } from '../support/fixture.js';
import { apiKey, type StartedServer } from '../support/process.js';
import { testInFolder } from '../support/working-folder.js';

const portOf = ({ url }: StartedServer): number => Number(new URL(url).port);
const { cert, key } = newCertificate();

/** Returns the cipher of a new connection; undefined if the handshake fails. */
async function handshake(
  server: StartedServer,
  version: SecureVersion,
  ciphers: string,
): Promise<string | undefined> {
  const socket = connect({
    port: portOf(server),
    host: '127.0.0.1',
    ca: cert,
    minVersion: version,
    maxVersion: version,
    ciphers,
  });
  try {
    await once(socket, 'secureConnect');
    return socket.getCipher().name;
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}

describe('NODE_OPTIONS', { concurrency: 2 }, () => {
  testInFolder('C67 cannot weaken the HTTP parser', {}, async (here) => {
    const server = await here.start('--storage memory:', {
      NODE_OPTIONS: '--insecure-http-parser --max-http-header-size=1000',
    });
    const port = portOf(server);
    const { http, full } = malformedRequests({ basePath: '/v1', key: apiKey });
    const post = (head: string): string =>
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${apiKey}\r\n${head}\r\n\r\n` +
      '{"name":"a","categoryId":1}';
    const malformed = {
      ...http,
      ...full,
      'a space before the colon': post('Content-Length : 27'),
      'a NUL in a header': post('X: a\0b\r\nContent-Length: 27'),
      'a folded line': post('X: a\r\n b\r\nContent-Length: 27'),
      'a bare line feed': post('X: a\nContent-Length: 27'),
      'a length and chunks': post('Transfer-Encoding: chunked\r\nContent-Length: 27'),
    };
    for (const [name, bytes] of Object.entries(malformed)) {
      const response = await exchange(port, bytes);
      assertError(response, 400, 'bad_request');
      assert.equal(response.kept, false, name);
    }

    const long = requestBytes('GET', '/healthz', { headers: [`X: ${'x'.repeat(10_000)}`] });
    assert.equal((await exchange(port, long)).status, 200);
    await server.stopCleanly();
  });

  testInFolder(
    'C67 cannot weaken TLS, even after the certificate is renewed',
    { 'tls.crt': cert, 'tls.key': key },
    async (here) => {
      const old = 'DEFAULT@SECLEVEL=0';
      const weak = 'AES128-SHA:AES256-SHA:ECDHE-ECDSA-AES128-SHA';
      const server = await here.start('--storage memory: --tls-cert tls.crt --tls-key tls.key', {
        NODE_OPTIONS: `--tls-min-v1.0 --tls-max-v1.2 --tls-cipher-list=${weak}:@SECLEVEL=0`,
      });
      const expectStrong = async (): Promise<void> => {
        assert.equal(await handshake(server, 'TLSv1', old), undefined);
        assert.equal(await handshake(server, 'TLSv1.1', old), undefined);
        assert.match((await handshake(server, 'TLSv1.2', 'DEFAULT')) ?? '', /GCM|CHACHA20/);
        assert.match((await handshake(server, 'TLSv1.3', 'DEFAULT')) ?? '', /^TLS_/);
      };
      await expectStrong();
      server.signal('SIGHUP');
      await server.waitForLog('TLS files read again');
      await expectStrong();
      await server.stopCleanly();
    },
  );
});
