/**
 * R13: a key is only with its client, and the time of a comparison reveals nothing about a digest.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { requestBytes, exchange, type RequestParts } from '../support/fixture.js';
import { serverFile } from '../support/process.js';
import { until } from '../support/waiting.js';
import { timeDigests } from './digest-timing.js';
import { tool } from './file-system.js';
import type { Share, TortureRow } from './row.js';
import { TorturedServer } from './scene.js';

export const keys: TortureRow = {
  id: 'R13',
  title:
    'keys: the places where a key may be found, and the time to compare 31 equal bytes of a digest',
  fullS: 10,
  run: async (share) => `${await searchPlaces(share)}; ${await timeDigests(share)}`,
};

/**
 * Shows a server its keys in every way a client or operator may, and searches for them everywhere.
 */
async function searchPlaces(share: Share): Promise<string> {
  const folder = join(share.workFolder, 'data');
  const keysFile = join(folder, 'keys.json');
  const change = (...args: readonly string[]): string =>
    tool(process.execPath, serverFile, 'keys', ...args, '--keys-file', keysFile).trim();
  mkdirSync(folder);
  const [key, revoked] = [change('add', 'alice'), change('add', 'bob')];
  writeFileSync(join(share.workFolder, 'broken.mjs'), brokenPlugin);
  // A crash would write its memory, but not into this folder.
  const server = new TorturedServer(share, join(folder, 'pets.jsonl'), {
    under: ['sh', '-c', 'ulimit -c unlimited; exec "$@"', 'sh'],
    args: ['--keys-file', keysFile, '--log', 'requests', '--plugin', './broken.mjs'],
    env: {},
  });
  assert.ok(await server.clients(), 'a start with a keys file fails');
  const responses: string[] = [];
  for (const bytes of [key, revoked].flatMap(requestsWith))
    responses.push((await exchange(server.port, bytes)).came);

  const ofProcess = ['cmdline', 'comm', 'environ'].map((name) =>
    readFileSync(`/proc/${server.pid}/${name}`, 'latin1'),
  );
  assert.match(ofProcess[0] ?? '', /server\.js/, 'this is another process');
  change('revoke', 'bob');
  server.signal('SIGHUP');
  const asBob = requestBytes('GET', '/v1/pets', { authorization: `Bearer ${revoked}` });
  await until(
    'the key that was revoked',
    async () => (await exchange(server.port, asBob)).status === 401,
  );
  // An invalid file with a key that was pasted by mistake.
  writeFileSync(`${keysFile}.new`, `{"keys":[{"name":"carol","sha256":"${key}"}]} ${revoked}`);
  renameSync(`${keysFile}.new`, keysFile);
  server.signal('SIGHUP');
  await until('a word about the bad keys file', () => /"error".*keys/.test(server.stdout));
  renameSync(keysFile, join(share.workFolder, 'bad-keys.json'));
  const { stderr } = await server.end('SIGABRT');

  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  assert.ok(files.includes('pets.jsonl'), 'there is no file of animals to look into');
  const places = {
    'the log': server.lines,
    'standard error': [stderr],
    'an answer': responses,
    '/proc': ofProcess,
    'the data folder': [
      ...files,
      ...files.map((name) => readFileSync(join(folder, name), 'latin1')),
    ],
  };
  for (const [place, texts] of Object.entries(places)) {
    for (const secret of [key, revoked]) {
      // Eleven characters of a key are not a coincidence.
      for (let at = 4; at + 11 <= secret.length; at++) {
        const found = texts.find((text) => text.includes(secret.slice(at, at + 11)));
        assert.equal(found?.slice(0, 200), undefined, `${place} holds a part of a key`);
      }
    }
  }
  return `two keys shown in ${responses.length} requests, and in a keys file that is none: not in ${server.lines.length} lines of the log, in any answer, in /proc, in the data folder behind an abort (${files.join(', ')})`;
}

/** A plugin whose handlers fail with everything that a handler knows. */
const brokenPlugin = `export default (host) => {
  host.route({ path: '/v1/broken', methods: { GET: { handler: (asked) => { throw Object.assign(new Error('broken'), { asked }); } } } });
};`;

/** Returns requests with a key in every place. */
function requestsWith(key: string): readonly string[] {
  const authorization = `Bearer ${key}`;
  const none = { authorization: null };
  const animal = '{"name":"Rex","categoryId":1}';
  const gets: readonly (readonly [target: string, words?: RequestParts])[] = [
    ['/v1/pets'],
    ['/v1/broken'],
    ['/v1/pets?limit=0'],
    ['/v1/pets/7'],
    [`/v1/pets?limit=${key}&status=${key}`],
    [`/v1/pets?access_token=${key}`, none],
    [`/v1/pets/${key}`],
    [`/${key}`, none],
    ['/v1/pets', { version: key }],
  ];
  const adds: readonly RequestParts[] = [
    { body: animal },
    { headers: ['Content-Type: text/plain'], body: animal },
    { headers: ['Expect: miracles'], body: animal },
    { body: ' '.repeat(70_000) },
    { body: `{"name":"${key}"}` },
    { body: `{"name":"a","categoryId":"${key}"}` },
    { body: `{"${key}":1,"${key}":2}` },
    { body: key },
  ];
  const values = [
    key,
    `Bearer ${key}x`,
    authorization.slice(0, -1),
    `Bearer ${key}, Bearer ${key}`,
  ];
  const headers = [`Host: ${key}/`, `${key} : x`, `X: \0${key}`, `Transfer-Encoding: ${key}`];
  return [
    ...gets.map(([target, words]) => requestBytes('GET', target, { authorization, ...words })),
    ...adds.map((words) => requestBytes('POST', '/v1/pets', { authorization, ...words })),
    ...[...values, `Basic ${key}`].map((value) =>
      requestBytes('GET', '/v1/pets', { authorization: value }),
    ),
    ...headers.map((header) =>
      requestBytes('GET', '/v1/pets', { authorization, headers: [header] }),
    ),
    requestBytes('DELETE', '/v1/pets', { authorization }),
    requestBytes(key, '/v1/pets', { authorization }),
    `${key}\r\n\r\n`,
  ];
}
