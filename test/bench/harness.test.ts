// Tests the benchmark itself: interleaving, medians and ratios of a simulated load, servers, and
// the writing of figures.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkFile, fileStorage, memoryStorage, type PetStorage } from '../../dist/index.js';
import { countRules, levels } from '../../dist/conformance/index.js';
import { start } from '../support/fixture.js';
import { folder } from '../support/process.js';
import { rarestCount, writeCatalogue } from './catalogue.js';
import { chartOf } from './chart.js';
import { bare, limit, peersFolder, petstore } from './contestants.js';
import { figuresOf, gitIn, staleness, withFigures } from './documents.js';
import { interleaved, median } from './figures.js';
import { clients, type Load } from './load.js';
import { adding, benchmarkKey, operation, reading } from './operations.js';
import { decimal, wrapped } from './report.js';
import { tableOfRight } from './right.js';
import { responsesOf, fill, checkSameResponses, startContestants } from './servers.js';

test('computes the median, for an even count as the mean of the middle two', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('wraps a paragraph at 120 columns', () => {
  const words = Array.from({ length: 90 }, (_, index) => 'x'.repeat(1 + (index % 9)));
  const lines = wrapped(`- ${words.join(' ')}`, '  ').split('\n');
  assert.equal(lines.join(' ').replaceAll('  ', ''), `- ${words.join(' ')}`.replaceAll('  ', ''));
  assert.ok(lines.length > 3);
  assert.ok(lines.every((line) => line.length <= 120));
  assert.ok(lines.slice(1).every((line) => /^ {2}\S/.test(line)));
  assert.equal(wrapped('x'.repeat(130)), 'x'.repeat(130));
});

test('interleaves servers after a warm-up, and computes ratios within each round', async () => {
  const servers = ['bare', 'same', 'half'].map((name) => ({
    name,
    url: '',
    process: { cpuSeconds: 0 },
  }));
  const order: string[] = [];
  // On a machine that becomes slower, only ratios within a round stay correct.
  let slowness = 1;
  const load: Load = {
    name: 'simulated',
    send: async ({ name }) => {
      order.push(name);
      slowness *= 1.01;
      for (const { process } of servers.filter((each) => each.name === name))
        process.cpuSeconds += (name === 'half' ? 2 : 1) * slowness;
      return { requests: 1000, refused: 0, requestsPerSecond: 1000, p50Ms: 1, p99Ms: 2 };
    },
  };
  const targets = servers.map((server) => ({ server, operation: reading.one }));
  const figures = await interleaved(targets, clients.sleeping, { load, rounds: 3, isShort: false });
  const rounds = 'bare same half | same half bare | half bare same';
  assert.deepEqual(order.slice(3), rounds.split(/[ |]+/));
  const ratios = figures.map(({ name, ratio }) => `${name} ${decimal(ratio, 1)}`);
  assert.deepEqual(ratios, ['bare 1.0', 'same 1.0', 'half 0.5']);
});

test('writes a catalogue that is a valid storage file, with 25 pets of the rarest status', async (t) => {
  const path = join(folder(t), 'pets.jsonl');
  assert.equal(writeCatalogue(path, 2_500), statSync(path).size);
  assert.equal((await checkFile(path)).animals, 2_500);
  const storage = await fileStorage(path);
  assert.equal((await storage.list({ limit: 100, status: 'pending' })).length, rarestCount);
  await storage.close();
});

test('checks the responses of each contestant, and names the first contestant that is wrong', async (t) => {
  const file = petstore(`file:${folder(t)}/pets.jsonl`, 'file');
  const servers = await startContestants(t, [petstore('memory:'), bare, limit, file]);
  const operations = [...Object.values(reading), adding];
  await fill(...servers);
  await checkSameResponses(servers, operations);
  // On one connection, which each response must keep open.
  const requests = operations.flatMap((operation) => operation.requests);
  for (const server of servers.filter(({ isBare }) => isBare))
    await responsesOf(server, operation('one after the other', 200, ...requests));
  const [ours, , most] = servers;
  assert.ok(ours !== undefined && most !== undefined);
  // The limit sends as many bytes as the petstore, except for errors.
  const { one, list20, list100, byStatus } = reading;
  for (const operation of [one, list20, list100, byStatus, adding]) {
    const [own] = await responsesOf(ours, operation);
    const [its] = await responsesOf(most, operation);
    const ratio = Number(its?.came.length) / Number(own?.came.length);
    assert.ok(Math.abs(ratio - 1) < 0.02, `${operation.name}: ${ratio}`);
  }

  // The limit is exempt from the comparison, so a copy without the exemption must fail.
  const wrong = { name: 'wrong', url: most.url };
  const gone = { name: 'gone', url: 'http://127.0.0.1:1' };
  const refused = (message: string) => ({ name: 'WrongResponse', message });
  await assert.rejects(
    checkSameResponses([ours, wrong], [reading.noKey]),
    refused('wrong responds to 401 with 200, not 401'),
  );
  await assert.rejects(
    checkSameResponses([ours, gone], [reading.noKey]),
    refused('gone does not respond to 401'),
  );
  await assert.rejects(fill(wrong), refused('wrong responds to POST of a pet with 200, not 201'));
});

test('rates the petstore as conforming at each level, and a server with invented pets as failing', async () => {
  const rex = { id: 1n, name: 'Rex', categoryId: 5n };
  const inventing = (): PetStorage => ({
    durable: false,
    insert: async () => rex,
    get: async () => rex,
    list: async () => [rex],
    close: async () => undefined,
  });
  const { rows } = await tableOfRight(
    [memoryStorage, inventing].map((storage) => {
      const options = () => ({ keys: [benchmarkKey], storage: storage() });
      return ['', async (t) => `http://127.0.0.1:${(await start(t, options())).port}`];
    }),
  );
  const [ours = [], theirs = []] = rows;
  for (const [index, level] of levels.entries()) {
    const all = countRules({ level });
    // Every rule counts, as in the output of `petstore verify`.
    const other = level === 'full' ? ' (1 not applicable)' : '';
    assert.equal(ours[index + 1], `${level === 'full' ? all - 1 : all} of ${all}${other}`);
    const [, held, of, untried] =
      /^(\d+) of (\d+) \((?:\d+ with a warning, )?(\d+) not tried/.exec(theirs[index + 1] ?? '') ??
      [];
    assert.equal(Number(of), all);
    assert.ok(Number(held) + Number(untried) < all, theirs[index + 1]);
  }
  assert.equal(ours[4], '–');
  assert.match(theirs[4] ?? '', /\bS3, .*C31$/);
});

test('exports everything that the peers import from this repository', async () => {
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

test('draws a bar for each number of a table, except for the error column', () => {
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

test('writes figures between their marks, and changes nothing else', () => {
  const table = { key: 'speed', title: '', head: ['', 'petstore'], rows: [['one', '1.16']] };
  const [part, commit, date] = ['speed-20', '0123456789abcdef', '2026-11-25'];
  const figures = figuresOf(
    ['20.1.0', '24.1.0'].map((node) => {
      return { part, commit, date, node, conditions: '', tables: [table] };
    }),
  );
  const document = 'Before.\n\n<!-- figures: speed -->\nold\n<!-- /figures -->\n\nAfter.\n';
  const written = withFigures(document, figures);
  const rows = '|  | petstore |\n| --- | --: |\n| one | 1.16 |';
  assert.equal(
    written,
    `Before.\n\n<!-- figures: speed -->\n\nNode 20.1.0, commit 0123456789:\n\n${rows}\n\nNode 24.1.0, commit 0123456789:\n\n${rows}\n\n<!-- /figures -->\n\nAfter.\n`,
  );
  assert.equal(withFigures(written, figures), written);
  const unmeasured = document.replace('speed', 'size');
  assert.equal(withFigures(unmeasured, figures), unmeasured);
});

test('reports figures as outdated once src has changed after their commit', (t) => {
  const checkout = folder(t);
  const git = (...args: readonly string[]): string =>
    gitIn(checkout, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args);
  const change = (path: string): string => {
    writeFileSync(join(checkout, path), String(Math.random()));
    git('add', '.');
    git('commit', '-qm', path);
    return git('rev-parse', 'HEAD');
  };
  git('init', '-q');
  mkdirSync(join(checkout, 'src'));
  const measured = change('src/a.ts');
  assert.equal(staleness(measured, checkout), undefined);
  change('README.md');
  assert.equal(staleness(measured, checkout), undefined);
  writeFileSync(join(checkout, 'src/b.ts'), '');
  assert.match(staleness(measured, checkout) ?? '', /^src has changes/);
  const last = change('src/b.ts');
  assert.ok(staleness(measured, checkout)?.endsWith(`src was changed in ${last}`));
  assert.equal(staleness(undefined, checkout), 'it has not been measured');
});
