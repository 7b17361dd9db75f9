// A start while the database is away: it waits and says so, and ends with 3 only for what waiting
// cannot mend.
import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  migratePostgres,
  postgresStorage,
  untilThere,
  type PostgresPool,
} from '../../dist/postgres/index.js';
import pg from 'pg';
import {
  apiKey,
  assertRefused,
  folder,
  runServer,
  StartedServer,
  serverFile,
} from '../support/process.js';
import { Cluster } from './cluster.js';
import { newDatabase, query, withoutServer } from './database.js';
import { errorMessage, TcpProxy } from './proxy.js';
import { notes } from '../storage/records.js';
import { until } from '../support/waiting.js';

/** Not measured: what these processes run is measured elsewhere, at 60 ms for each. */
const keyed = { PETSTORE_API_KEYS: apiKey, PORT: '0', NODE_V8_COVERAGE: '' };

function starting(t: TestContext, args: readonly string[]): StartedServer {
  const server = new StartedServer(process.execPath, [serverFile, ...args], {
    cwd: folder(t),
    env: keyed,
  });
  atEnd(t, () => server.end('SIGKILL'));
  return server;
}

describe('a start while the database is away', { skip: withoutServer() }, () => {
  test('waits for one that is down, and says so each 5 s; serves once it is there', async (t) => {
    const cluster = await Cluster.start();
    atEnd(t, () => cluster.remove());
    await migratePostgres(cluster.url);
    await cluster.down('SIGQUIT');
    const server = starting(t, ['--storage', cluster.url]);
    const line = await server.said('waiting for the database');
    assert.match(String(line['error']), /ECONNREFUSED/);
    const told = (): number =>
      server.log.filter(({ msg }) => msg === 'waiting for the database').length;
    const since = performance.now();
    await until('a second line', () => told() === 2);
    assert.ok(performance.now() - since > 4_000, 'not more often than each 5 s');
    assert.equal(
      server.log.find(({ msg }) => msg === 'listening'),
      undefined,
    );
    await cluster.up();
    await server.said('listening');
    assert.equal((await server.add('Rex')).status, 201);
    assert.equal((await server.end()).code, 0);
  });

  const fatal = (code: string): Buffer =>
    errorMessage({ S: 'FATAL', V: 'FATAL', C: code, M: 'not now' });
  for (const [what, answer, said, search] of [
    ['starts (57P03)', fatal('57P03'), /not now/, ''],
    ['has no connection left (53300)', fatal('53300'), /not now/, ''],
    [
      'has no process left',
      Buffer.from('Ecould not fork new process\n\0'),
      /terminated unexpectedly/,
      '',
    ],
    [
      'has no process left to speak TLS',
      Buffer.from('E'),
      /establishing an SSL connection/,
      '?sslmode=no-verify',
    ],
  ] as const) {
    test(`waits for one that ${what}, and for one that hears nothing`, async (t) => {
      const sockets = new Set<Socket>();
      let isSilent = false;
      const database = createServer((socket) => {
        sockets.add(socket.on('error', () => undefined));
        socket.once('data', () => isSilent || socket.end(answer));
      });
      await new Promise<void>((resolve) => database.listen(0, '127.0.0.1', resolve));
      atEnd(t, () => {
        for (const socket of sockets) socket.destroy();
        database.close();
      });
      const address = database.address();
      assert.ok(typeof address === 'object' && address !== null);
      const server = starting(t, [
        '--storage',
        `postgres://u:p@127.0.0.1:${address.port}/d${search}`,
      ]);
      assert.match(String((await server.said('waiting for the database'))['error']), said);
      isSilent = true;
      await until('a line of the silence', () =>
        server.log.some(
          ({ msg, error }) => msg === 'waiting for the database' && !said.test(String(error)),
        ),
      );
      assert.equal(server.child.exitCode, null);
    });
  }

  test('waits where the machine has no port, file or buffer left', async (t) => {
    const pool = new pg.Pool({ connectionString: await newDatabase() });
    atEnd(t, () => pool.end());
    const connect = pool.connect.bind(pool);
    const codes = ['EAGAIN', 'EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS'];
    const failing: PostgresPool = {
      connect: () => {
        const code = codes.shift();
        return code === undefined
          ? connect()
          : Promise.reject(Object.assign(new Error(code), { code }));
      },
      end: () => pool.end(),
      on: () => undefined,
      removeListener: () => undefined,
    };
    const storage = await untilThere(
      () => postgresStorage(failing),
      () => undefined,
    );
    await storage.close();
    assert.deepEqual(codes, []);
  });

  test('so do the records of a plugin, and their uses meanwhile', async (t) => {
    const url = await newDatabase();
    const proxy = await TcpProxy.start(Number(new URL(url).port));
    atEnd(t, () => proxy.close());
    const logged: unknown[] = [];
    const storage = await postgresStorage(proxy.urlFor(url), {
      log: (_level, message) => logged.push(message),
    });
    atEnd(t, () => storage.close());
    proxy.mode = 'closed';
    const records = storage.records?.('notes', notes);
    assert.ok(records !== undefined);
    await until('a line of the log', () => logged.includes('waiting for the database'));
    await assert.rejects(async () => storage.ready?.(), { code: 'unavailable' });
    const inserted = records.insert('a');
    proxy.mode = 'open';
    await records.opened;
    await storage.ready?.();
    assert.equal((await inserted).id, 1n);
    assert.equal((await records.list({ limit: 9 })).texts.length, 1);
  });

  test('closing ends the waiting of records', async (t) => {
    const url = await newDatabase();
    const proxy = await TcpProxy.start(Number(new URL(url).port));
    atEnd(t, () => proxy.close());
    const storage = await postgresStorage(proxy.urlFor(url));
    proxy.mode = 'closed';
    const records = storage.records?.('notes', notes);
    await storage.close();
    await assert.rejects(async () => records?.opened, { code: 'unavailable' });
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} ends the waiting at once, with 0`, async (t) => {
      const server = starting(t, ['--storage', 'postgres://127.0.0.1:1/x']);
      await server.said('waiting for the database');
      const since = performance.now();
      const { code, stderr } = await server.end(signal);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
      assert.ok(performance.now() - since < 20_000);
    });
  }

  test('does not wait for a password, a database or tables that are not there', async (t) => {
    const cwd = folder(t);
    const url = new URL(await newDatabase());
    const nowhere = Object.assign(new URL(url), { pathname: '/petstore_nowhere' }).href;
    assertRefused(
      await runServer(['--storage', nowhere], { cwd, env: keyed }),
      3,
      /no such database/,
    );
    await query(url.href, 'DROP TABLE petstore_schema');
    assertRefused(
      await runServer(['--storage', url.href], { cwd, env: keyed }),
      2,
      /has no tables/,
    );
    // As SCRAM begins and goes on: the server wants a password, and the URL has none.
    const messages = [
      Buffer.from('R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0', 'latin1'),
      Buffer.from('R\0\0\0\x16\0\0\0\x0br=x,s=eA==,i=1', 'latin1'),
    ];
    const database = createServer((socket) => {
      const left = [...messages];
      socket.on('error', () => undefined).on('data', () => socket.write(left.shift() ?? ''));
    });
    await new Promise<void>((resolve) => database.listen(0, '127.0.0.1', resolve));
    atEnd(t, () => void database.close());
    const address = database.address();
    assert.ok(typeof address === 'object' && address !== null);
    const wanting = await runServer(['--storage', `postgres://u@127.0.0.1:${address.port}/d`], {
      cwd,
      env: keyed,
    });
    assertRefused(wanting, 3, /it wants a password: put one into its URL/);
  });
});

describe('URLs of a database', () => {
  test('characters that are not escaped are told of, and neither they nor the password are repeated', async (t) => {
    for (const password of ['a/b', '12/3', 'a?b', '12?3', 'a#b', '12#3']) {
      const url = `postgres://ann:${password}@127.0.0.1:1/pets`;
      const refused = await runServer(['--storage', url], { cwd: folder(t), env: keyed });
      assertRefused(refused, 2, /write %2F for \//);
      assert.ok(!refused.stderr.includes(password), refused.stderr);
      await assert.rejects(
        postgresStorage(url),
        (error) =>
          error instanceof TypeError &&
          /%2F/.test(error.message) &&
          !error.message.includes(password),
      );
    }
  });

  test('sslmode: no warning of the driver for a mode that is not what it is called; an unknown one is refused', async (t) => {
    const warnings: unknown[] = [];
    const warn = (warning: unknown): void => void warnings.push(warning);
    process.on('warning', warn);
    atEnd(t, () => process.off('warning', warn));
    for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full', 'no-verify', 'disable']) {
      const url = `postgres://ann:sslmode=${mode}@127.0.0.1:1/x?sslmode=${mode}`;
      await assert.rejects(postgresStorage(url), { code: 'storage_unusable' });
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(warnings, []);
    for (const typo of [
      'sslmode=allow',
      'sslmode=disable&sslmode=verify_full',
      'sslmode=',
      'sslmode=requir',
    ]) {
      await assert.rejects(postgresStorage(`postgres://127.0.0.1:1/x?${typo}`), {
        name: 'TypeError',
        message: /must be .* a URL whose sslmode is disable, verify-full or no-verify/,
      });
    }
  });
});
