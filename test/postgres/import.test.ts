// F11, F12: an import into a database goes on at its place, whatever became of an answer; a seed
// comes once and whole.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { postgresImport, seedPostgres } from '../../dist/postgres/index.js';
import { atEnd } from '../support/at-end.js';
import { command } from '../support/command.js';
import { folder, runServer, startServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { newDatabase, query, withoutDatabase } from './database.js';
import { assertInTurn, idsIn, namesIn, proxied, unusable } from './scene.js';

const source = 'ab'.repeat(32);
const silent = (): void => undefined;
const draftsOf = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ name: `${index}`, categoryId: 1n }));

const lineOf = ({ name }: { readonly name: string }) => `{"name":"${name}","categoryId":1}\n`;
const nameOf = ({ name }: { readonly name: string }) => name;

describe('an import into a database', { skip: withoutDatabase() }, () => {
  /** An import behind a proxy. */
  async function importing(t: TestContext) {
    const { url, far, proxy } = await proxied(t);
    const target = await postgresImport(far, source, silent);
    atEnd(t, () => target.close());
    return { url, proxy, target };
  }

  test('F11 a batch whose answer is lost is asked for, not added again', async (t) => {
    const { url, proxy, target } = await importing(t);
    assert.equal(await target.add(draftsOf(10)), 10);
    proxy.mode = 'deaf';
    const adding = target.add(draftsOf(500));
    await until('the answer that is lost', () => proxy.repliesLost > 0);
    proxy.mode = 'closed';
    await until('the batch', async () => (await idsIn(url)).length === 510);
    proxy.mode = 'open';
    assert.equal(await adding, 510);
    assert.equal(await target.add(draftsOf(1)), 511);
    assertInTurn(await idsIn(url), 511);
  });

  test('F11 a batch that may still be under way is waited for', async (t) => {
    const { url, proxy, target } = await importing(t);
    // It comes to the lock that somebody else has, and its connection is lost there.
    await query(
      url,
      `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NEW; END';
       CREATE TRIGGER slow BEFORE INSERT ON petstore_pets FOR EACH STATEMENT EXECUTE FUNCTION slow()`,
    );
    const sent = proxy.bytesSent;
    const adding = target.add(draftsOf(3));
    await until('the statement', () => proxy.bytesSent > sent + 100);
    proxy.cut();
    assert.equal(await adding, 3);
    assert.deepEqual(await namesIn(url), ['0', '1', '2']);
  });

  test('F11 two that import one file at once, and one more behind them, add each animal once', async (t) => {
    const url = await newDatabase();
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), draftsOf(9_000).map(lineOf).join(''));
    const importing = () => runServer(['import', 'in.jsonl', '--storage', url], { cwd });
    for (const { code, stderr } of await Promise.all([importing(), importing()]))
      assert.deepEqual([code, stderr], [0, '']);
    assert.match(
      (await command(['import', 'in.jsonl', '--storage', url], { cwd })).stdout,
      /^0 animals added to postgres:.*; 9000 of in\.jsonl were there before\n$/,
    );
    assert.deepEqual(await namesIn(url), draftsOf(9_000).map(nameOf));
  });

  test('F11 a place that went back, as after a failover to a standby that lagged: nothing is added behind the gap', async (t) => {
    const url = await newDatabase();
    await query(
      url,
      `CREATE FUNCTION lag() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.place = least(NEW.place, 5); RETURN NEW; END $$;
       CREATE TRIGGER lagging BEFORE UPDATE ON petstore_imports FOR EACH ROW EXECUTE FUNCTION lag()`,
    );
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), draftsOf(5_000).map(lineOf).join(''));
    const ended = await command(['import', 'in.jsonl', '--storage', url], { cwd });
    assert.equal(ended.code, 3);
    assert.match(
      ended.stderr,
      /^At least 5 of 5000 animals were added, then: The storage has lost animals of this import\./m,
    );
    const names = await namesIn(url);
    assert.deepEqual(names, draftsOf(names.length).map(nameOf));
    assert.ok(names.length < 5_000);
  });

  test('F12 of many that seed an empty database at once one does, and its animals are there once', async (t) => {
    const url = await newDatabase();
    const seeded = await Promise.all(
      Array.from({ length: 6 }, () => seedPostgres(url, draftsOf(300), silent)),
    );
    assert.equal(seeded.filter((isSeeded) => isSeeded).length, 1);
    assert.deepEqual(await namesIn(url), draftsOf(300).map(nameOf));
    const raced = await newDatabase();
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '{"name":"a","categoryId":1}\n{"name":"b","categoryId":1,"status":"sold"}\n',
    );
    const env = { PETSTORE_SEED: 'in.jsonl', PETSTORE_STORAGE: raced };
    const servers = await Promise.all(
      [0, 1, 2].map(() => startServer(t, ['--port', '0'], { cwd, env })),
    );
    for (const server of servers) {
      const text = await (await server.get('/v1/pets')).text();
      assert.equal(
        text,
        '[{"id":1,"name":"a","categoryId":1},{"id":2,"name":"b","categoryId":1,"status":"sold"}]',
      );
    }
  });

  test('F12 a seed that fails at its last animal leaves none', async () => {
    const url = await newDatabase();
    await query(
      url,
      "ALTER TABLE petstore_pets ADD CHECK (convert_from(json, 'UTF8') NOT LIKE '%\"299\"%')",
    );
    await assert.rejects(seedPostgres(url, draftsOf(300), silent), unusable);
    assert.deepEqual(await namesIn(url), []);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT petstore_pets_json_check');
    assert.equal(await seedPostgres(url, draftsOf(300), silent), true);
  });
});
