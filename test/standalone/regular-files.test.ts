// Tests that the server reads only regular files and links to them, because others could block it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe } from 'node:test';
import { newCertificate } from '../support/certificate.js';
import { testInFolder, type WorkingFolder } from '../support/working-folder.js';

/** Makes a pipe and its folder. */
function makePipe(here: WorkingFolder, name: string): void {
  mkdirSync(dirname(here.at(name)), { recursive: true });
  execFileSync('mkfifo', [here.at(name)]);
}

/** The command line for each option that names a file. */
const refusals: Readonly<Record<string, (name: string) => string>> = {
  'a certificate': (name) => `--tls-cert ${name} --tls-key file`,
  'a key of a certificate': (name) => `--tls-cert file --tls-key ${name}`,
  'a keys file': (name) => `--keys-file ${name}`,
  'a seed': (name) => `--seed ${name}`,
  'a plugin': (name) => `--plugin ${name}`,
};

describe('files that the server reads', { concurrency: 4 }, () => {
  for (const [what, lineOf] of Object.entries(refusals))
    testInFolder(
      `refuses ${what} that is a pipe, a link to one, a folder or a device`,
      { file: '' },
      async (here) => {
        makePipe(here, 'pipe');
        symlinkSync('pipe', here.at('link'));
        // A plugin may be a folder, because a package is one.
        const folder = what === 'a plugin' ? [] : ['.'];
        for (const name of ['./pipe', './link', ...folder, '/dev/zero'])
          await here.refuses(`--storage memory: ${lineOf(name)}`, 2, /is not a regular file/);
      },
    );

  testInFolder('refuses a key of --dev that is a pipe', async (here) => {
    makePipe(here, 'data/dev-key');
    await here.refuses('--dev --storage memory:', 2, /data\/dev-key is not a regular file/);
  });

  testInFolder('follows links to regular files', async (here) => {
    const { cert, key } = newCertificate();
    const pet = '{"name":"Rex","categoryId":1}';
    mkdirSync(here.at('real'));
    for (const [name, text] of Object.entries({
      'a.crt': cert,
      'a.key': key,
      'keys.json': '{"keys":[]}',
      'seed.jsonl': pet,
      'plugin.mjs': 'export default () => undefined;',
    })) {
      here.write(`real/${name}`, text);
      symlinkSync(`real/${name}`, here.at(name));
    }
    const server = await here.start(
      '--storage memory: --tls-cert a.crt --tls-key a.key --keys-file keys.json ' +
        '--seed seed.jsonl --plugin ./plugin.mjs',
    );
    assert.equal((await server.waitForLog('listening'))['pets'], 1);
    await server.stopCleanly();
  });

  testInFolder(
    'keeps the old keys if a pipe replaces the keys file, and stops on SIGTERM',
    { 'keys.json': '{"keys":[]}' },
    async (here) => {
      const server = await here.start('--storage memory: --keys-file keys.json');
      makePipe(here, 'pipe');
      renameSync(here.at('pipe'), here.at('keys.json'));
      const { error } = await server.waitForLog(
        'the keys file cannot be used; the old keys stay in use',
      );
      assert.match(String(error), /keys\.json is not a regular file/);
      assert.equal(await server.status('/v1/pets'), 200);
      await server.stopCleanly();
    },
  );
});
