// HTTPS: certificates that work and ones that are refused.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { after, before, describe, test, type TestContext } from 'node:test';
import { makeCertificate } from '../support/certificate.js';
import { atEnd } from '../support/at-end.js';
import { apiKey, folder, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { WorkingFolder } from '../support/working-folder.js';

let made = '';
before(() => {
  made = mkdtempSync(join(tmpdir(), 'petstore-tls-'));
  for (const name of ['one', 'two']) makeCertificate(made, name);
});
after(() => rmSync(made, { recursive: true, force: true }));

const tlsFlags = (cert: string, key: string): readonly string[] => [
  '--tls-cert',
  join(made, cert),
  '--tls-key',
  join(made, key),
];

function statusOf(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(
      url,
      {
        ca: readFileSync(join(made, 'one.crt')),
        headers: { Authorization: `Bearer ${apiKey}` },
        agent: false,
      },
      (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      },
    ).once('error', reject);
  });
}

/** Whether a new connection is shown the certificate of this name. */
async function shows(url: string, name: string): Promise<boolean> {
  const socket = connect({
    port: Number(new URL(url).port),
    host: '127.0.0.1',
    rejectUnauthorized: false,
  });
  await once(socket, 'secureConnect');
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return raw.equals(new X509Certificate(readFileSync(join(made, `${name}.crt`))).raw);
}

describe('HTTPS', { concurrency: 4 }, () => {
  test('--tls-cert and --tls-key serve HTTPS', async (t) => {
    const server = await new WorkingFolder(t).start([
      ...tlsFlags('one.crt', 'one.key'),
      '--storage',
      'memory:',
    ]);
    assert.match(server.url, /^https:/);
    assert.equal(await statusOf(`${server.url}/v1/pets`), 200);
    assert.equal((await server.end()).code, 0);
  });

  test('PETSTORE_TLS_CERT and PETSTORE_TLS_KEY do too, and the line of --dev works with them', async (t) => {
    const here = new WorkingFolder(t);
    const env = {
      PETSTORE_TLS_CERT: join(made, 'one.crt'),
      PETSTORE_TLS_KEY: join(made, 'one.key'),
      PETSTORE_STORAGE: 'memory:',
    };
    const server = await here.start('--dev', env);
    assert.equal(await statusOf(`${server.url}/healthz`), 200);
    const line = await until('the curl line', () => /^curl .*\n/m.exec(server.stdout)?.[0]);
    const { code, stdout } = await new StartedProcess('sh', ['-c', line], { cwd: here.path }).ended;
    assert.equal(code, 0);
    assert.match(stdout, /^\{"id":1,/);
    assert.equal((await server.end()).code, 0);
  });

  test('SIGHUP reads the pair again; a bad one leaves the last good pair, and the log says why', async (t) => {
    const here = new WorkingFolder(t);
    const put = (cert: string, key: string): void => {
      copyFileSync(join(made, cert), here.at('cert.pem'));
      copyFileSync(join(made, key), here.at('key.pem'));
    };
    put('one.crt', 'one.key');
    const server = await here.start('--tls-cert cert.pem --tls-key key.pem --storage memory:');
    const shown = (name: string): Promise<boolean> => shows(server.url, name);
    assert.ok(await shown('one'));
    put('two.crt', 'one.key');
    server.child.kill('SIGHUP');
    const warning = await server.said('TLS files not read again: the last good pair stays');
    assert.equal(warning['level'], 'warn');
    assert.match(
      String(warning['error']),
      /^--tls-cert cert\.pem and --tls-key key\.pem do not serve HTTPS \(.*mismatch/,
    );
    assert.ok(await shown('one'));
    put('two.crt', 'two.key');
    server.child.kill('SIGHUP');
    await server.said('TLS files read again');
    assert.ok(await shown('two'));
    assert.equal((await server.end()).code, 0);
  });

  test('SIGHUP while a plugin still opens: the new pair is served', async (t) => {
    const here = new WorkingFolder(t);
    const put = (name: string): void => {
      copyFileSync(join(made, `${name}.crt`), here.at('cert.pem'));
      copyFileSync(join(made, `${name}.key`), here.at('key.pem'));
    };
    put('one');
    here.write(
      'slow.mjs',
      `import { existsSync } from 'node:fs';
      import { setTimeout as wait } from 'node:timers/promises';
      export default async ({ log }) => {
        await wait(0);
        log('info', 'the plugin opens');
        while (!existsSync('go')) await wait(10);
      };`,
    );
    const args = [
      '--tls-cert',
      'cert.pem',
      '--tls-key',
      'key.pem',
      '--storage',
      'memory:',
      '--plugin',
      './slow.mjs',
    ];
    const server = here.begin([...args, '--port', '0'], { PETSTORE_API_KEYS: apiKey });
    atEnd(t, () => server.end('SIGKILL'));
    await server.said('the plugin opens');
    put('two');
    server.child.kill('SIGHUP');
    await server.said('TLS files read again');
    here.write('go', '');
    const { url } = await server.said('listening');
    assert.ok(await shows(String(url), 'two'));
    assert.equal((await server.end()).code, 0);
  });

  const bad = (t: TestContext): string => {
    const path = join(folder(t), 'bad.pem');
    writeFileSync(path, 'no PEM at all');
    return path;
  };
  const refusals: readonly (readonly [string, (t: TestContext) => readonly string[], RegExp])[] = [
    [
      'a certificate without a key',
      () => tlsFlags('one.crt', 'one.key').slice(0, 2),
      /give both --tls-cert FILE and --tls-key FILE/,
    ],
    [
      'a key without a certificate',
      () => tlsFlags('one.crt', 'one.key').slice(2),
      /give both --tls-cert FILE and --tls-key FILE/,
    ],
    [
      'a certificate that is not there',
      () => tlsFlags('none.crt', 'one.key'),
      /^--tls-cert cannot be read .*none\.crt/,
    ],
    [
      'a key that is not there',
      () => tlsFlags('one.crt', 'none.key'),
      /^--tls-key cannot be read .*none\.key/,
    ],
    [
      'a certificate that is none',
      (t) => ['--tls-cert', bad(t), ...tlsFlags('one.crt', 'one.key').slice(2)],
      /^--tls-cert .* and --tls-key .* do not serve HTTPS .*PEM/,
    ],
    [
      'a key that is none',
      (t) => [...tlsFlags('one.crt', 'one.key').slice(0, 2), '--tls-key', bad(t)],
      /^--tls-cert .* and --tls-key .* do not serve HTTPS .*PEM/,
    ],
    [
      'an empty certificate',
      () => ['--tls-cert', '/dev/null', ...tlsFlags('one.crt', 'one.key').slice(2)],
      /^--tls-cert .* and --tls-key .* do not serve HTTPS .*PEM/,
    ],
    [
      'the key of another certificate',
      () => tlsFlags('one.crt', 'two.key'),
      /^--tls-cert .* and --tls-key .* do not serve HTTPS .*PEM/,
    ],
  ];
  for (const [what, flags, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const here = new WorkingFolder(t);
      await here.refuses(flags(t), 2, line, { PORT: '0', PETSTORE_API_KEYS: apiKey });
      assert.deepEqual(here.names(), []);
    });
  }
});
