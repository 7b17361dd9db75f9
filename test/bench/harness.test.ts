// The benchmark measures what it says: interleaving, medians and ratios over a load that is made
// up, and a file that starts.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { checkFile, fileStorage } from '../../dist/index.js';
import { start } from '../support/fixture.js';
import { folder } from '../support/process.js';
import { rarestCount, writeCatalogue } from './catalogue.js';
import { chartOf } from './chart.js';
import { bare, limit, peersFolder, petstore } from './contestants.js';
import { commitLine, figuresOf, staleness, withFigures } from './documents.js';
import { interleaved, median } from './figures.js';
import { askers, type Load } from './load.js';
import { adding, benchmarkKey, reading } from './operations.js';
import { tableOfRight } from './right.js';
import { answersOf, fill, proveSameAnswers, startContestants, WrongAnswer } from './servers.js';

test('the median of an even number is between the two in the middle', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('servers take turns, the first slice of each does not count, and ratios are those of the same round', async () => {
  const order: string[] = [];
  const cpu = new Map<string, number>();
  // A machine that gets slower all the time: only ratios within a round stay what they are.
  let slowness = 1;
  const load: Load = {
    name: 'made up',
    send: async ({ url }) => {
      order.push(url);
      slowness *= 1.01;
      cpu.set(url, (cpu.get(url) ?? 0) + (url === 'half' ? 2 : 1) * slowness);
      return { requests: 1000, seconds: 1, p50Ms: 1, p99Ms: 2 };
    },
  };
  const turns = ['bare', 'same', 'half'].map((url) => ({
    server: {
      name: url,
      url,
      process: {
        get cpuSeconds() {
          return cpu.get(url) ?? 0;
        },
      },
    },
    operation: reading.one,
  }));
  const figures = await interleaved(turns, askers.sleeping, { load, rounds: 3, isShort: false });
  const rounds = 'bare same half | same half bare | half bare same';
  assert.deepEqual(order.slice(3), rounds.split(/[ |]+/));
  for (const [name, ratio] of [
    ['bare', 1],
    ['same', 1],
    ['half', 0.5],
  ] as const)
    assert.ok(Math.abs((figures.get(name)?.ratio ?? 0) - ratio) < 0.03, name);
});

test('a written catalogue is a sound storage file with its rare animals', async (t) => {
  const path = join(folder(t), 'pets.jsonl');
  assert.equal(writeCatalogue(path, 2_500), statSync(path).size);
  assert.equal((await checkFile(path)).animals, 2_500);
  const storage = await fileStorage(path);
  assert.equal((await storage.list({ limit: 100, status: 'pending' })).length, rarestCount);
  await storage.close();
});

test('each server of our own answers what is measured, the limit as many bytes as the petstore, and who answers wrongly is named at once', async (t) => {
  const servers = await startContestants(t, [petstore('memory:'), bare, limit]);
  const operations = [...Object.values(reading), adding];
  await fill(...servers);
  await proveSameAnswers(servers, operations);
  const requests = operations.flatMap((operation) => operation.requests);
  // One connection for all: each answer must leave it fit for the next request.
  for (const server of servers.filter(({ isBare }) => isBare))
    await answersOf(server, 'one behind the other', requests, 200);
  const [ours, , most] = servers;
  assert.ok(ours !== undefined && most !== undefined);
  // To what is refused the limit answers as to an animal.
  const { one, list20, list100, byStatus } = reading;
  for (const { name, requests, status } of [one, list20, list100, byStatus, adding]) {
    const [own, its] = await Promise.all(
      [ours, most].map(async (server) => {
        const [answer] = await answersOf(server, name, requests, status);
        return answer?.came.length;
      }),
    );
    const ratio = (its ?? 0) / (own ?? 0);
    assert.ok(Math.abs(ratio - 1) < 0.02, `${name}: ${ratio}`);
  }

  // The limit is not held against the petstore's answers; here it is.
  const wrong = { name: 'wrong', url: most.url };
  const refused = (message: string) => (error: unknown) =>
    error instanceof WrongAnswer && error.message === message;
  await assert.rejects(
    proveSameAnswers([ours, wrong], [reading.noKey]),
    refused('wrong answers 401 with 200, not 401'),
  );
  await assert.rejects(
    fill(wrong),
    refused('wrong answers an animal that is added with 200, not 201'),
  );
  await assert.rejects(
    proveSameAnswers([ours, { ...wrong, url: 'http://127.0.0.1:1' }], [reading.noKey]),
    refused('wrong answers 401 with undefined, not 401'),
  );
});

test('of who answers right the petstore does at each level, and what answers all alike does not', async () => {
  const fixed = createServer((_request, response) =>
    response.setHeader('Content-Type', 'application/json').end('{"id":1,"name":"Rex"}'),
  );
  const { rows } = await tableOfRight([
    [
      'petstore',
      async (t) => `http://127.0.0.1:${(await start(t, { keys: [benchmarkKey] })).port}`,
    ],
    [
      'fixed',
      async (t) => {
        await new Promise<void>((resolve) => fixed.listen(0, '127.0.0.1', resolve));
        atEnd(t, () => {
          fixed.closeAllConnections();
          return new Promise((resolve) => fixed.close(resolve));
        });
        const address = fixed.address();
        assert.ok(address !== null && typeof address === 'object');
        return `http://127.0.0.1:${address.port}`;
      },
    ],
  ]);
  const [ours = [], theirs = []] = rows;
  assert.equal(ours[0], 'petstore');
  for (const sum of ours.slice(1, 4)) assert.match(sum, /^(\d+) of \1\b/);
  assert.equal(ours[4], '–');
  for (const number of ['S1', 'C20', 'C36'])
    assert.ok(theirs[4]?.split(', ').includes(number), theirs[4]);
});

test('what the peers take of ours is there, also for those that need what is installed', async () => {
  const taken = readdirSync(peersFolder)
    .filter((file) => file.endsWith('.js'))
    .flatMap((file) => [
      ...readFileSync(join(peersFolder, file), 'utf8').matchAll(
        /import \{ (.*) \} from '(\.\.\/.*)'/g,
      ),
    ]);
  assert.ok(taken.length >= 2);
  for (const [line, names = '', path = ''] of taken) {
    const given: object = await import(join(peersFolder, path));
    for (const name of names.split(', ')) assert.ok(name in given, line);
  }
});

test('a chart has a bar for each number of a table, but for its error', () => {
  const svg = chartOf({
    title: 'a < b',
    head: ['', 'one', 'other', 'one again'],
    rows: [
      ['first', '1.00', '–', '0.98'],
      ['second', '2.00', '0.50', '1.01'],
    ],
  });
  assert.equal(svg.match(/height="10" fill="#[0-9a-f]{6}"\/><text[^>]*stroke=/g)?.length, 3);
  assert.ok(svg.includes('a &lt; b'));
});

test('figures stand between their marks, a table for each Node, and nothing else is changed', () => {
  const table = { key: 'speed', title: '', head: ['', 'petstore'], rows: [['one', '1.16']] };
  const figures = figuresOf(
    ['20.1.0', '24.1.0'].map((node) => ({ node, conditions: '', tables: [table] })),
  );
  const document = 'Before.\n\n<!-- figures: speed -->\nold\n<!-- /figures -->\n\nBehind.\n';
  const written = withFigures(document, figures);
  const rows = '|  | petstore |\n| --- | --: |\n| one | 1.16 |';
  assert.equal(
    written,
    `Before.\n\n<!-- figures: speed -->\n\nNode 20.1.0:\n\n${rows}\n\nNode 24.1.0:\n\n${rows}\n\n<!-- /figures -->\n\nBehind.\n`,
  );
  assert.equal(withFigures(written, figures), written);
  assert.throws(() => withFigures(document.replace('speed', 'sped'), figures), /no figures "sped"/);
});

test('figures are old once src was changed behind their commit', (t) => {
  const checkout = folder(t);
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
      cwd: checkout,
      encoding: 'utf8',
    }).trim();
  const change = (path: string): string => {
    writeFileSync(join(checkout, path), String(Math.random()));
    git('add', '.');
    git('commit', '-qm', path);
    return git('rev-parse', 'HEAD');
  };
  git('init', '-q');
  mkdirSync(join(checkout, 'src'));
  const measured = `It was:\n${commitLine(change('src/a.ts'), '2026-11-25')}\n`;
  assert.equal(staleness(measured, checkout), undefined);
  change('README.md');
  assert.equal(staleness(measured, checkout), undefined);
  writeFileSync(join(checkout, 'src/b.ts'), '');
  assert.match(staleness(measured, checkout) ?? '', /^src has changes/);
  const last = change('src/b.ts');
  assert.ok(staleness(measured, checkout)?.endsWith(`src was changed in ${last}`));
  assert.equal(staleness('It was not.', checkout), 'nothing has been measured');
});
