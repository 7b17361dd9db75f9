// The benchmark measures what it says: interleaving, medians and ratios over a load that is made
// up, and a file that starts.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { atEnd } from '../support/at-end.js';
import { checkFile, fileStorage } from '../../dist/index.js';
import { Client } from '../support/client.js';
import { proveSameAnswers, WrongAnswer } from './answers.js';
import { fill, rarestCount, writeCatalogue } from './catalogue.js';
import { chartOf } from './chart.js';
import { bare, limit, petstore } from './contestants.js';
import { commitLine, figuresOf, staleness, withFigures } from './documents.js';
import { interleaved, median, type Racer } from './figures.js';
import { clients, type Load } from './load.js';
import { adding, reading, wireText } from './operations.js';
import { own, tableOfRight } from './right.js';
import { Session } from './session.js';

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
  const racerOf = (url: string): Racer => ({
    name: url,
    url,
    process: {
      get cpuSeconds() {
        return cpu.get(url) ?? 0;
      },
    },
  });
  const turns = ['bare', 'same', 'half'].map((url) => ({
    server: racerOf(url),
    operation: reading.one,
  }));
  const figures = await interleaved(turns, clients.sleeping, { load, rounds: 3, isShort: false });
  assert.deepEqual(order.slice(3), [
    'bare',
    'same',
    'half',
    'same',
    'half',
    'bare',
    'half',
    'bare',
    'same',
  ]);
  assert.ok(Math.abs((figures.get('same')?.ratio ?? 0) - 1) < 0.03);
  assert.ok(Math.abs((figures.get('half')?.ratio ?? 0) - 0.5) < 0.03);
  assert.equal(figures.get('bare')?.ratio, 1);
});

test('a written catalogue is a sound storage file with its rare animals', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-'));
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'pets.jsonl');
  assert.equal(writeCatalogue(path, 2_500), statSync(path).size);
  assert.equal((await checkFile(path)).animals, 2_500);
  const storage = await fileStorage(path);
  assert.equal((await storage.list({ limit: 100, status: 'pending' })).length, rarestCount);
  await storage.close();
});

test('each server of our own answers what is measured, and the limit as many bytes as the petstore', async (t) => {
  const session = new Session();
  atEnd(t, () => session.end());
  const own = [petstore('memory:'), petstore(`file:${session.folder()}/pets.jsonl`), bare, limit];
  const servers = await session.startAll(own);
  const operations = [...Object.values(reading), adding];
  for (const server of servers) if (!server.isBare) await fill(server);
  await proveSameAnswers(servers, operations);
  const bytes = new Map<string, number>();
  for (const { name, url, isBare } of servers) {
    // One connection for all: each answer must leave it fit for the next request.
    const client = await Client.connect(Number(new URL(url).port));
    atEnd(t, () => client.destroy());
    for (const operation of operations) {
      for (const request of operation.requests) {
        const { status, came } = await client.send(wireText(request)).answer();
        assert.equal(status, isBare ? 200 : operation.status, `${name}: ${operation.name}`);
        bytes.set(`${name}: ${operation.name}`, came.length);
      }
    }
  }
  // To what is refused the limit answers as to an animal.
  for (const { name } of [reading.one, reading.list20, reading.list100, reading.byStatus, adding]) {
    const ratio =
      (bytes.get(`${limit.name}: ${name}`) ?? 0) / (bytes.get(`petstore: ${name}`) ?? 0);
    assert.ok(Math.abs(ratio - 1) < 0.02, `${name}: ${ratio}`);
  }
});

test('who answers wrongly is named at once, with what it should have answered', async (t) => {
  const session = new Session();
  atEnd(t, () => session.end());
  const [ours, wrong] = await session.startAll([petstore('memory:'), { ...limit, name: 'wrong' }]);
  assert.ok(ours !== undefined && wrong !== undefined);
  await fill(ours);
  // The limit is not held against the petstore's answers; here it is.
  const { isBare: _, ...contestant } = wrong;
  const refused = (message: string) => (error: unknown) =>
    error instanceof WrongAnswer && error.message === message;
  await assert.rejects(
    proveSameAnswers([ours, contestant], [reading.noKey]),
    refused('wrong answers 401 with 200, not 401'),
  );
  await assert.rejects(fill(contestant), refused('wrong answers an animal that is added with 200'));
});

test('of who answers right the petstore does at each level, and what answers all alike does not', async () => {
  const { rows } = await tableOfRight(own);
  const [ours = [], fixed = []] = rows;
  assert.equal(ours[0], 'petstore');
  for (const sum of ours.slice(1, 4)) assert.match(sum, /^(\d+) of \1\b/);
  assert.equal(ours[4], '–');
  for (const number of ['S1', 'C20', 'C36'])
    assert.ok(fixed[4]?.split(', ').includes(number), fixed[4]);
});

test('what the peers take of ours is there, also for those that need what is installed', async () => {
  const folder = fileURLToPath(new URL('../../test/bench/peers/', import.meta.url));
  const taken = readdirSync(folder)
    .filter((file) => file.endsWith('.js'))
    .flatMap((file) => [
      ...readFileSync(join(folder, file), 'utf8').matchAll(/import \{ (.*) \} from '(\.\.\/.*)'/g),
    ]);
  assert.ok(taken.length >= 2);
  for (const [line, names = '', path = ''] of taken) {
    const given: object = await import(join(folder, path));
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
  const checkout = mkdtempSync(join(tmpdir(), 'petstore-'));
  atEnd(t, () => rmSync(checkout, { recursive: true, force: true }));
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
