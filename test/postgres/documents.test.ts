// The commands and statements of docs/postgres.md, as they stand there but for the host of the
// database.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { folder, root, StartedProcess, StartedServer } from '../support/process.js';
import { Cluster } from './cluster.js';
import { query, withoutServer } from './database.js';

const document = readFileSync(join(root, 'docs/postgres.md'), 'utf8');
const blocks = Array.from(
  document.matchAll(/^```(sh|sql)\n(.*?)^```$/gms),
  ([, language = '', text = '']) => ({ language, text }),
);

describe('docs/postgres.md', { skip: withoutServer() }, () => {
  test('its commands and statements run in this order: roles, tables, servers, a copy, a backup, what administrators do', async (t) => {
    const cluster = await Cluster.start();
    atEnd(t, () => cluster.remove());
    const cwd = folder(t);
    const ran = new Set<string>();
    const textWith = (part: string): string => {
      const block = blocks.find(({ text }) => text.includes(part)) ?? assert.fail(part);
      ran.add(block.text);
      return block.text
        .replaceAll('db.example', `127.0.0.1:${cluster.port}`)
        .replaceAll('node dist/', `${process.execPath} ${root}dist/`);
    };
    const env = { PETSTORE_API_KEYS: 'key', PORT: '0' };
    const succeed = async (program: string, ...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await new StartedProcess(program, args, { cwd, env }).ended;
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
      return stdout;
    };
    const sql = (url: string, statements: string): Promise<string> =>
      succeed('psql', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', statements);

    // Each on its own line: psql takes no command of its own behind a statement of -c.
    writeFileSync(join(cwd, 'roles.sql'), textWith('CREATE ROLE'));
    await succeed('psql', '-v', 'ON_ERROR_STOP=1', '-d', cluster.url, '-f', 'roles.sql');
    const [install, migrate = '', serve = ''] = textWith('migrate').split('\n');
    assert.equal(install, 'npm install pg@8');
    await succeed('sh', '-c', migrate);
    // exec: the signal is the server's own.
    const command = serve.replace(process.execPath, `exec ${process.execPath}`);
    const server = new StartedServer('sh', ['-c', command], { cwd, env });
    atEnd(t, () => server.end('SIGKILL'));
    await server.said('listening');
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);

    mkdirSync(join(cwd, 'data'));
    const animal = '{"id":1,"name":"Rex","categoryId":5}';
    writeFileSync(join(cwd, 'data/pets.jsonl'), `${animal}\n`);
    await succeed('sh', '-c', textWith('copy --from'));
    const headers = { Authorization: 'Bearer key' };
    assert.equal(await (await fetch(`${server.url}/v1/pets/1`, { headers })).text(), animal);

    await sql(cluster.url, 'CREATE DATABASE restored OWNER petstore_owner');
    await succeed('sh', '-c', textWith('pg_dump'));
    await succeed('sh', '-c', textWith('pg_restore'));
    const restored = `postgres://petstore@127.0.0.1:${cluster.port}/restored`;
    assert.equal((await query(restored, 'SELECT id FROM petstore_pets')).length, 1);

    const owned = `postgres://petstore_owner@127.0.0.1:${cluster.port}/petstore`;
    assert.match(await sql(owned, textWith('DELETE FROM petstore_idempotency')), /^DELETE \d+$/m);
    await sql(cluster.url, textWith('pg_stat_activity'));
    assert.deepEqual(
      blocks.map(({ text }) => text).filter((text) => !ran.has(text)),
      [],
    );
  });
});
