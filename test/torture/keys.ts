/**
 * R13: a key is nowhere but in the client's hand, and the time of a comparison tells nothing about
 * a digest.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client as BareClient } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import { timeDigests } from './digest-timing.js';
import { hold, inTime, until, type Share, type Row } from './row.js';
import { serverFile } from '../support/process.js';
import { Server } from './server.js';

export const keys: Row = {
  id: 'R13',
  title: 'keys: where one may be found; the time of comparing 31 equal bytes of a digest, or none',
  fullS: 10,
  run: async (share) => {
    const places = await searchPlaces(share);
    const timing = await timeDigests(share);
    return `${places}; ${timing}`;
  },
};

/**
 * Lets a server meet its keys in every way that a client or operator may show them, and looks for
 * them everywhere.
 */
async function searchPlaces(share: Share): Promise<string> {
  const folder = join(share.workFolder, 'data');
  const keysFile = join(folder, 'keys.json');
  const made = (name: string): string =>
    execFileSync(process.execPath, [serverFile, 'keys', 'add', name, '--keys-file', keysFile], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim();
  mkdirSync(folder);
  const [key, revoked] = [made('alice'), made('bob')];
  writeFileSync(join(share.workFolder, 'broken.mjs'), brokenPlugin);
  // A crash would write its memory, if only it were told where: not into this folder.
  const server = new Server(share, join(folder, 'pets.jsonl'), {
    under: ['sh', '-c', 'ulimit -c unlimited; exec "$@"', 'sh'],
    args: ['--keys-file', keysFile, '--log', 'requests', '--plugin', './broken.mjs'],
    env: {},
  });
  const client = await inTime(server.listening, 30_000, 'a start');
  hold(client !== undefined, 'a start with a keys file fails');
  const answers: string[] = [];
  for (const each of [key, revoked]) answers.push(...(await showEverywhere(client.port, each)));

  const proc = (name: string): string => readFileSync(`/proc/${server.pid}/${name}`, 'latin1');
  const ofProcess = [proc('cmdline'), proc('comm'), proc('environ')];
  hold(ofProcess[0]?.includes('server.js') === true, 'this is another process');
  execFileSync(process.execPath, [serverFile, 'keys', 'revoke', 'bob', '--keys-file', keysFile], {
    stdio: 'ignore',
  });
  server.signal('SIGHUP');
  await until(
    'the key that was revoked',
    5_000,
    async () => (await statusFor(client.port, revoked)) === 401,
  );
  // A file that is none, with a key in it where one was pasted by mistake.
  writeFileSync(`${keysFile}.new`, `{"keys":[{"name":"carol","sha256":"${key}"}]} ${revoked}`);
  renameSync(`${keysFile}.new`, keysFile);
  server.signal('SIGHUP');
  await until('a word about the bad keys file', 5_000, () =>
    server.log.some((line) => line.includes('"error"') && line.includes('keys')),
  );
  renameSync(keysFile, join(share.workFolder, 'bad-keys.json'));
  const { stderr } = await server.end('SIGABRT');

  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  hold(files.includes('pets.jsonl'), 'there is no file of animals to look into');
  const places: readonly (readonly [string, readonly string[]])[] = [
    ['the log', server.log],
    ['standard error', [stderr]],
    ['an answer', answers],
    ['/proc', ofProcess],
    [
      'the data folder',
      [...files, ...files.map((name) => readFileSync(join(folder, name), 'latin1'))],
    ],
  ];
  for (const [what, texts] of places) {
    for (const text of texts) {
      for (const secret of [key, revoked]) {
        // Eleven characters of a key are no accident.
        for (let at = 4; at + 11 <= secret.length; at++)
          hold(
            !text.includes(secret.slice(at, at + 11)),
            () => `${what} holds a part of a key: ${text.slice(0, 200)}`,
          );
      }
    }
  }
  return `two keys shown in ${answers.length} requests, and in a keys file that is none: not in ${server.log.length} lines of the log, in any answer, in /proc, in the data folder behind an abort (${files.join(', ')})`;
}

/** Its handlers fail with all that a handler knows. */
const brokenPlugin = `export default (host) => {
  host.route({ path: '/v1/broken', methods: { GET: { handler: (asked) => { throw Object.assign(new Error('broken'), { asked }); } } } });
};`;

/** A key in every place of a request; answers all that came back. */
async function showEverywhere(port: number, key: string): Promise<readonly string[]> {
  const good = { authorization: `Bearer ${key}` };
  const animal = '{"name":"Rex","categoryId":1}';
  const requests = [
    bytesOf('GET', '/v1/pets', good),
    bytesOf('POST', '/v1/pets', { ...good, body: animal }),
    bytesOf('GET', '/v1/broken', good),
    bytesOf('GET', '/v1/pets?limit=0', good),
    bytesOf('GET', '/v1/pets/7', good),
    bytesOf('DELETE', '/v1/pets', good),
    bytesOf('POST', '/v1/pets', { ...good, headers: ['Content-Type: text/plain'], body: animal }),
    bytesOf('POST', '/v1/pets', { ...good, headers: ['Expect: miracles'], body: animal }),
    bytesOf('POST', '/v1/pets', { ...good, body: ' '.repeat(70_000) }),
    bytesOf('POST', '/v1/pets', { ...good, body: `{"name":"${key}"}` }),
    bytesOf('POST', '/v1/pets', { ...good, body: `{"name":"a","categoryId":"${key}"}` }),
    bytesOf('POST', '/v1/pets', { ...good, body: `{"${key}":1,"${key}":2}` }),
    bytesOf('POST', '/v1/pets', { ...good, body: key }),
    bytesOf('GET', `/v1/pets?limit=${key}&status=${key}`, good),
    bytesOf('GET', `/v1/pets?access_token=${key}`, { authorization: null }),
    bytesOf('GET', `/v1/pets/${key}`, good),
    bytesOf('GET', `/${key}`, { authorization: null }),
    bytesOf(key, '/v1/pets', good),
    bytesOf('GET', '/v1/pets', { authorization: key }),
    bytesOf('GET', '/v1/pets', { authorization: `Bearer ${key}x` }),
    bytesOf('GET', '/v1/pets', { authorization: `Bearer ${key.slice(0, -1)}` }),
    bytesOf('GET', '/v1/pets', { authorization: `Bearer ${key}, Bearer ${key}` }),
    bytesOf('GET', '/v1/pets', { authorization: `Basic ${key}` }),
    bytesOf('GET', '/v1/pets', { ...good, headers: [`Host: ${key}/`] }),
    bytesOf('GET', '/v1/pets', { ...good, headers: [`${key} : x`] }),
    bytesOf('GET', '/v1/pets', { ...good, headers: [`X: \0${key}`] }),
    bytesOf('GET', '/v1/pets', { ...good, headers: [`Transfer-Encoding: ${key}`] }),
    bytesOf('GET', '/v1/pets', { ...good, version: key }),
    `${key}\r\n\r\n`,
  ];
  const received: string[] = [];
  for (const bytes of requests) {
    const client = (await BareClient.connect(port)).send(bytes);
    received.push((await client.answer('POST', 10_000)).came);
    client.destroy();
  }
  return received;
}

async function statusFor(port: number, key: string): Promise<number> {
  const client = (await BareClient.connect(port)).send(
    bytesOf('GET', '/v1/pets', { authorization: `Bearer ${key}` }),
  );
  const { status } = await client.answer();
  client.destroy();
  return status;
}
