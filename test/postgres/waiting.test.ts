// Starts while the database is away, URLs of a database, and servers that are not PostgreSQL.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import { atEnd } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { WorkingFolder } from '../support/working-folder.js';
import {
  migratePostgres,
  postgresStorage,
  seedPostgres,
  waitForDatabase,
} from '../../dist/postgres/index.js';
import { readableUrl } from '../../dist/postgres/database-url.js';
import { type StartedServer, assertRefused } from '../support/process.js';
import {
  adminUrl,
  newDatabase,
  ownCluster,
  query,
  withoutDatabase,
  withoutServer,
} from './database.js';
import { errorMessage } from './proxy.js';
import { listen } from './tcp.js';
import {
  endSessions,
  expectUnready,
  linesOf,
  namesIn,
  openFar,
  poolOf,
  proxied,
  unavailable,
  unusable,
} from './scene.js';
import { notes } from '../storage/records.js';
import { until } from '../support/waiting.js';

const waitingLine = 'waiting for the database';

/** Starts a server that waits. Without coverage, which would cost 60 ms for each. */
async function starting(t: TestContext, url: string): Promise<StartedServer> {
  const server = new WorkingFolder(t).begin(`--storage ${url}`, { NODE_V8_COVERAGE: '' });
  await server.waitForLog(waitingLine);
  return server;
}

/** Returns the URL of a TCP server that calls `serve` for each connection. */
async function serving(t: TestContext, serve: (socket: Socket) => void): Promise<string> {
  const { port } = await listen(t, serve);
  return `postgres://u@127.0.0.1:${port}/d`;
}

const fatal = (code: string): Buffer =>
  errorMessage({ S: 'FATAL', V: 'FATAL', C: code, M: 'not now' });

describe('a start while the database is away', { skip: withoutServer() }, () => {
  test('a start waits for a database that is down, and logs it every 5 s', async (t) => {
    const cluster = await ownCluster();
    await migratePostgres(cluster.url);
    atEnd(t, () => cluster.up());
    await cluster.down('SIGQUIT');
    const server = await starting(t, cluster.url);
    const since = performance.now();
    const lines = () => server.log.filter(({ msg }) => msg === waitingLine);
    assert.match(String(lines()[0]?.['error']), /ECONNREFUSED/);
    await until('a second line', () => lines().length === 2);
    assert.ok(performance.now() - since > 4_000, 'not more often than every 5 s');
    assert.ok(server.log.every(({ msg }) => msg !== 'listening'));
    await cluster.up();
    await server.waitForLog('listening');
    assert.equal((await server.add('Rex')).status, 201);
    assert.equal((await server.end()).code, 0);
  });

  test('a start waits for a database that is starting, full or silent', async (t) => {
    const responses: readonly (readonly [string, Buffer, RegExp, string?])[] = [
      ['is starting', fatal('57P03'), /not now/],
      ['has no free connection', fatal('53300'), /not now/],
      ['cannot fork', Buffer.from('Ecould not fork\n\0'), /terminated unexpectedly/],
      [
        'cannot fork for TLS',
        Buffer.from('E'),
        /establishing an SSL connection/,
        '?sslmode=no-verify',
      ],
    ];
    const waits = responses.map(async ([what, first, said, search = '']) => {
      let response: Buffer | undefined = first;
      const url = await serving(t, (socket) =>
        socket.once('data', () => response && socket.end(response)),
      );
      const reasons: string[] = [];
      const opening = waitForDatabase(
        () => postgresStorage(url + search),
        (_level, _message, fields) => reasons.push(String(fields?.['error'])),
      );
      opening.catch(() => undefined);
      await until(`a line about a database that ${what}`, () => reasons.length === 1);
      assert.match(reasons[0] ?? '', said);
      response = undefined;
      await until('a line about the silence', () => reasons.some((reason) => !said.test(reason)));
      response = search === '' ? fatal('28P01') : Buffer.from('N');
      await assert.rejects(opening, unusable, 'a failure that is not transient ends it');
    });
    await Promise.all(waits);
  });

  const transient: Readonly<Record<string, readonly string[]>> = {
    'the machine has no free port, file or buffer': [
      'EAGAIN',
      'EMFILE',
      'ENFILE',
      'EADDRNOTAVAIL',
      'ENOBUFS',
    ],
    'the host is unknown or unreachable': [
      'ENOTFOUND',
      'EAI_AGAIN',
      'ECONNREFUSED',
      'ECONNRESET',
      'ETIMEDOUT',
      'EHOSTUNREACH',
      'ENETUNREACH',
    ],
    'the database is full or stopping, or a table is locked': [
      '08006',
      '40001',
      '53300',
      '55P03',
      '57014',
      '57P01',
    ],
  };
  for (const [why, codes] of Object.entries(transient))
    test(`a start waits while ${why}`, async (t) => {
      const pool = await poolOf(t);
      const connect = pool.connect.bind(pool);
      const left = [...codes];
      Reflect.set(pool, 'connect', () => {
        const code = left.shift();
        return code === undefined
          ? connect()
          : Promise.reject(Object.assign(new Error('failed'), { code }));
      });
      const storage = await waitForDatabase(
        () => postgresStorage(pool),
        () => undefined,
      );
      await storage.close();
      assert.deepEqual(left, []);
    });

  test('F12 a seed waits for a database that is unreachable or ends its sessions', async (t) => {
    const { url, far, proxy } = await proxied(t);
    proxy.mode = 'closed';
    const logged: string[] = [];
    const seeding = seedPostgres(far, [{ name: 'Rex', categoryId: 1n }], (level, message) =>
      logged.push(`${level} ${message}`),
    );
    await until('a line of the log', () => logged.includes(`warn ${waitingLine}`));
    proxy.mode = 'open';
    assert.equal(await seeding, true);
    assert.deepEqual(await namesIn(url), ['Rex']);

    const here = new WorkingFolder(t, { 'seed.jsonl': '{"name":"Tom","categoryId":1}\n' });
    const other = await newDatabase();
    const server = here.begin(`--seed seed.jsonl --storage ${other}`);
    let isOver = false;
    const ending = (async () => {
      for (const since = performance.now(); performance.now() - since < 3_000 && !isOver; )
        await query(await adminUrl(), endSessions);
    })();
    await server.waitForLog('listening');
    isOver = true;
    await ending;
    assert.deepEqual(await namesIn(other), ['Tom']);
  });

  test('records of a plugin wait for the database until the storage closes', async (t) => {
    const { proxy, storage, logged } = await openFar(t);
    proxy.mode = 'closed';
    const records = storage.records?.('notes', notes) ?? assert.fail();
    await until('a line of the log', () => logged.includes(`warn ${waitingLine}`));
    await expectUnready(storage);
    const inserted = records.insert('a');
    proxy.mode = 'open';
    await records.opened;
    await storage.ready?.();
    assert.equal((await inserted).id, 1n);
    assert.equal((await records.list({ limit: 9 })).texts.length, 1);
    proxy.mode = 'closed';
    const others = storage.records?.('others', notes);
    await storage.close();
    await assert.rejects(async () => others?.opened, unavailable);
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} ends a waiting server with exit code 0`, async (t) => {
      const server = await starting(t, 'postgres://127.0.0.1:1/x');
      const since = performance.now();
      const { code, stderr } = await server.end(signal);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
      assert.ok(performance.now() - since < 20_000);
    });
  }

  test('a pipe as a TLS file is refused, and does not block a running server', async (t) => {
    const here = new WorkingFolder(t, { 'ca.pem': newCertificate().cert });
    const url = new URL(await newDatabase());
    // The driver reads the file in any mode.
    url.searchParams.set('sslmode', 'disable');
    url.searchParams.set('sslrootcert', here.at('ca.pem'));
    const server = await here.start(`--storage ${url.href}`);
    assert.equal((await server.add('Rex')).status, 201);

    rmSync(here.at('ca.pem'));
    execFileSync('mkfifo', [here.at('ca.pem')]);
    await query(await adminUrl(), endSessions);
    await until('a new session', async () => (await server.add('Tom')).status === 201);
    await server.stopCleanly();
    const notRegular = /ca\.pem is not a regular file; name a PEM file/;
    await here.refuses(`--storage ${url.href}`, 3, notRegular);
    url.searchParams.set('sslrootcert', here.at('none.pem'));
    await here.refuses(`--storage ${url.href}`, 3, /none\.pem cannot be read .*; name a PEM file/);
  });

  test('a start does not wait for a missing password, database or table', async (t) => {
    const url = await newDatabase();
    const nowhere = Object.assign(new URL(url), { pathname: '/petstore_nowhere' }).href;
    await query(url, 'DROP TABLE petstore_schema');
    // The first two messages of SCRAM: the server asks for a password, and the URL has none.
    const asking = await serving(t, (socket) => {
      const left = ['\x17\0\0\0\x0aSCRAM-SHA-256\0\0', '\x16\0\0\0\x0br=x,s=eA==,i=1'];
      socket.on('data', () => socket.write(`R\0\0\0${left.shift() ?? ''}`, 'latin1'));
    });
    for (const [storage, code, message] of [
      [nowhere, 3, /no such database/],
      [url, 2, /has no petstore tables/],
      [asking, 3, /it asks for a password; put it into the URL/],
    ] as const)
      await new WorkingFolder(t).refuses(`--storage ${storage}`, code, message);
  });
});

describe('URLs of a database', () => {
  test('a URL with an unescaped character is refused without repeating its password', async (t) => {
    for (const password of ['a/b', '12/3', 'a?b', '12?3', 'a#b', '12#3']) {
      const url = `postgres://ann:${password}@127.0.0.1:1/pets`;
      const refused = await new WorkingFolder(t).command(`--storage ${url}`);
      assertRefused(refused, 2, /write %2F for \//);
      assert.ok(!refused.stderr.includes(password), refused.stderr);
    }
  });

  test('each sslmode is accepted without a warning of the driver, and no unknown one', async (t) => {
    const warnings: unknown[] = [];
    const warn = (warning: unknown): void => void warnings.push(warning);
    process.on('warning', warn);
    atEnd(t, () => process.off('warning', warn));
    for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full', 'no-verify', 'disable']) {
      const url = `postgres://ann:sslmode=${mode}@127.0.0.1:1/x?sslmode=${mode}`;
      await assert.rejects(postgresStorage(url), unusable);
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(warnings, []);
    const typos = ['=allow', '=disable&sslmode=verify_full', '=', '=requir'];
    for (const typo of typos) {
      await assert.rejects(postgresStorage(`postgres://127.0.0.1:1/x?sslmode${typo}`), {
        name: 'TypeError',
        message:
          /its (sslmode must be disable, verify-full or no-verify|parameter sslmode is given)/,
      });
    }
  });
  test('a URL with an unknown parameter, host or form is refused with a hint', async () => {
    const refused: Readonly<Record<string, RegExp>> = {
      'mysql://h/x': /must begin with postgres:/,
      'postgres://h:5432:1/x': /must have the form postgres:/,
      'postgres://h:99999/x': /must have the form/,
      'postgres://ann:100%@h/x': /%25 for %/,
      'postgres://one,two/x': /several hosts; name one, or a proxy/,
      'postgres://one:5432,two:5433/x': /several hosts/,
      'postgres:///x?host=one,two': /host must be one host/,
      'postgres://h/x?sslmod=verify-full': /parameter sslmod is unknown; did you mean sslmode\?/,
      'postgres://h/x?SSLMODE=disable': /SSLMODE is unknown; did you mean sslmode\?/,
      'postgres://h/x?ssl-mode=verify-full': /parameter is unknown; did you mean sslmode\?/,
      'postgres://h/x?poolmax=5': /poolmax is unknown; did you mean pool_max\?/,
      'postgres://h/x?zzz=1': /zzz is unknown; use sslmode, sslrootcert/,
      'postgres://h/x?toString=1': /toString is unknown/,
      'postgres://h/x?target_session_attrs=any': /target_session_attrs is not supported; name the/,
      'postgres://h/x?service=pets': /service is not supported; write its settings/,
      'postgres://h/x?connect_timeout=5': /connect_timeout is not supported; a connection has 2 s/,
      'postgres://h/x?ssl=true': /ssl is not supported; write sslmode=verify-full/,
      'postgres://h/x?user=ann': /user is not supported; write it in front of the host/,
      'postgres://h/x?sslmode=disable&sslmode=disable': /sslmode is given more than once/,
      'postgres://h/x?sslrootcert=': /sslrootcert has no value/,
      'postgres://h/x?sslcert=a.pem': /sslcert and sslkey must be given together/,
      'postgres://h/x?pool_max=0': /pool_max must be an integer from 1 to 1000/,
      'postgres://h/x?pool_max=ten': /pool_max must be an integer/,
      'postgres://h/x?sslmode=disable#end': /nothing may follow a #/,
    };
    for (const [url, message] of Object.entries(refused))
      await assert.rejects(postgresStorage(url), { name: 'TypeError', message }, url);

    const accepted = [
      'postgres://127.0.0.1:1/x',
      'postgresql://ann:se%2Fcret@127.0.0.1:1/x?application_name=pets&options=-cjit%3Doff',
      'postgres:///x?host=/nowhere',
      'postgres://%2Fnowhere/x',
      'postgres://[::1]:1/x?pool_max=1000&sslmode=no-verify',
    ];
    for (const url of accepted) await assert.rejects(postgresStorage(url), unusable, url);
  });

  test('pool_max bounds the connections of a server, and maxConnections overrides it', {
    skip: withoutDatabase(),
  }, async () => {
    const url = new URL(await newDatabase());
    url.searchParams.set('pool_max', '3');
    const name = `pool_${Date.now()}`;
    url.searchParams.set('application_name', name);
    const sessions = () =>
      linesOf(url.href, `SELECT count(*) FROM pg_stat_activity WHERE application_name = '${name}'`);
    for (const [options, count] of [
      [{}, 3],
      [{ maxConnections: 2 }, 2],
    ] as const) {
      const storage = await postgresStorage(url.href, options);
      await Promise.all(Array.from({ length: 20 }, (_, id) => storage.list({ limit: id + 1 })));
      // The session that counts has the name too.
      assert.equal(Number(await sessions()), count + 1);
      await storage.close();
      await until('the end of the sessions', async () => (await sessions()) === '1');
    }
  });

  test('a TLS certificate that fails is refused with a hint', {
    skip: withoutDatabase(),
  }, async (t) => {
    const certificate = newCertificate(undefined, 'DNS:db.example');
    const here = new WorkingFolder(t, { 'ca.pem': certificate.cert });
    const url = await serving(t, (socket) =>
      socket.once('data', () => {
        socket.write('S');
        new TLSSocket(socket, { isServer: true, ...certificate }).on('error', () => undefined);
      }),
    );
    for (const mode of ['verify-full', 'verify-ca', 'require', 'prefer'])
      for (const [search, message] of [
        [`&sslrootcert=${here.at('ca.pem')}`, /for another host; write a host of/],
        ['', /name its authority/],
      ] as const)
        await assert.rejects(
          postgresStorage(`${url}?sslmode=${mode}${search}`),
          { ...unusable, message },
          mode,
        );

    const pool = await poolOf(t);
    for (const [code, message] of [
      ['CERT_HAS_EXPIRED', /has expired; renew it/],
      ['CERT_NOT_YET_VALID', /not valid yet; check the clock/],
    ] as const) {
      const error = Object.assign(new Error('certificate'), { code });
      Reflect.set(pool, 'connect', () => Promise.reject(error));
      await assert.rejects(postgresStorage(pool), { ...unusable, message });
    }
  });
});

test('a session whose TLS files are gone still uses TLS', (t) => {
  const here = new WorkingFolder(t, { 'ca.pem': 'any text' });
  const url = `postgres://h/x?sslrootcert=${here.at('ca.pem')}`;
  assert.equal(readableUrl(url), url);
  rmSync(here.at('ca.pem'));
  assert.equal(readableUrl(url), 'postgres://h/x?sslmode=verify-full');
  for (const mode of ['disable', 'no-verify'])
    assert.equal(readableUrl(`${url}&sslmode=${mode}`), `postgres://h/x?sslmode=${mode}`);
});

test('reports a server that is not PostgreSQL, with TLS and without', async (t) => {
  // A request for an unknown kind of authentication.
  const unknownRequest = Buffer.from('R\0\0\0\x08\0\0\0\x63', 'latin1');
  const respond = (socket: Socket) =>
    socket.on('error', () => undefined).once('data', () => socket.write(unknownRequest));
  const plain = await serving(t, respond);
  // Made before the connections, because a busy machine needs more time for it than a client has.
  const certificate = newCertificate();
  const secure = await serving(t, (socket) =>
    socket.once('data', () => {
      // The first message asks for TLS; S accepts it.
      socket.write('S');
      respond(new TLSSocket(socket, { isServer: true, ...certificate }));
    }),
  );
  for (const url of [`${plain}?sslmode=disable`, `${secure}?sslmode=no-verify`])
    await assert.rejects(postgresStorage(url), { ...unusable, message: /authentication/i }, url);
});
