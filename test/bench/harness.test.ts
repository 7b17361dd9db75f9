// The benchmark measures what it says: interleaving, medians and ratios over a load that is made
// up, and a file that starts.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkFile, fileStorage, memoryStorage, type PetStorage } from '../../dist/index.js';
import { start } from '../support/fixture.js';
import { folder } from '../support/process.js';
import { rarestCount, writeCatalogue } from './catalogue.js';
import { chartOf } from './chart.js';
import { bare, limit, peersFolder, petstore } from './contestants.js';
import { commitLine, figuresOf, gitIn, staleness, withFigures } from './documents.js';
import { interleaved, median } from './figures.js';
import { askers, type Load } from './load.js';
import { adding, benchmarkKey, operation, reading } from './operations.js';
import { decimal } from './report.js';
import { tableOfRight } from './right.js';
import { answersOf, fill, proveSameAnswers, startContestants } from './servers.js';

test('the median of an even number is between the two in the middle', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('servers take turns, the first slice of each does not count, and ratios are those of the same round', async () => {
  const servers = ['bare', 'same', 'half'].map((name) => ({
    name,
    url: '',
    process: { cpuSeconds: 0 },
  }));
  const order: string[] = [];
  // A machine that gets slower all the time: only ratios within a round stay what they are.
  let slowness = 1;
  const load: Load = {
    name: 'made up',
    send: async ({ name }) => {
      order.push(name);
      slowness *= 1.01;
      for (const { process } of servers.filter((each) => each.name === name))
        process.cpuSeconds += (name === 'half' ? 2 : 1) * slowness;
      return { requests: 1000, requestsPerSecond: 1000, p50Ms: 1, p99Ms: 2 };
    },
  };
  const turns = servers.map((server) => ({ server, operation: reading.one }));
  const figures = await interleaved(turns, askers.sleeping, { load, rounds: 3, isShort: false });
  const rounds = 'bare same half | same half bare | half bare same';
  assert.deepEqual(order.slice(3), rounds.split(/[ |]+/));
  const ratios = figures.map(({ name, ratio }) => `${name} ${decimal(ratio, 1)}`);
  assert.deepEqual(ratios, ['bare 1.0', 'same 1.0', 'half 0.5']);
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
  const file = petstore(`file:${folder(t)}/pets.jsonl`, 'file');
  const servers = await startContestants(t, [petstore('memory:'), bare, limit, file]);
  const operations = [...Object.values(reading), adding];
  await fill(...servers);
  await proveSameAnswers(servers, operations);
  // One connection for all: each answer must leave it fit for the next request.
  const requests = operations.flatMap((operation) => operation.requests);
  for (const server of servers.filter(({ isBare }) => isBare))
    await answersOf(server, operation('one behind the other', 200, ...requests));
  const [ours, , most] = servers;
  assert.ok(ours !== undefined && most !== undefined);
  // To what is refused the limit answers as to an animal.
  const { one, list20, list100, byStatus } = reading;
  for (const operation of [one, list20, list100, byStatus, adding]) {
    const [own] = await answersOf(ours, operation);
    const [its] = await answersOf(most, operation);
    const ratio = Number(its?.came.length) / Number(own?.came.length);
    assert.ok(Math.abs(ratio - 1) < 0.02, `${operation.name}: ${ratio}`);
  }

  // The limit is not held against the petstore's answers; here it is.
  const wrong = { name: 'wrong', url: most.url };
  const gone = { name: 'gone', url: 'http://127.0.0.1:1' };
  const refused = (message: string) => ({ name: 'WrongAnswer', message });
  await assert.rejects(
    proveSameAnswers([ours, wrong], [reading.noKey]),
    refused('wrong answers 401 with 200, not 401'),
  );
  await assert.rejects(
    proveSameAnswers([ours, gone], [reading.noKey]),
    refused('gone does not answer 401'),
  );
  await assert.rejects(
    fill(wrong),
    refused('wrong answers an animal that is added with 200, not 201'),
  );
});

test('of who answers right the petstore does at each level, and one that makes up animals does not', async () => {
  const rex = { id: 1n, name: 'Rex', categoryId: 5n };
  const madeUp = (): PetStorage => ({
    durable: false,
    insert: async () => rex,
    get: async () => rex,
    list: async () => [rex],
    close: async () => undefined,
  });
  const { rows } = await tableOfRight(
    [memoryStorage, madeUp].map((storage) => {
      const options = () => ({ keys: [benchmarkKey], storage: storage() });
      return ['', async (t) => `http://127.0.0.1:${(await start(t, options())).port}`];
    }),
  );
  const [ours = [], theirs = []] = rows;
  for (const sum of ours.slice(1, 4)) assert.match(sum, /^(\d+) of \1\b/);
  assert.equal(ours[4], '–');
  assert.match(theirs[4] ?? '', /^S2, S3, .*C31$/);
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
    gitIn(checkout, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args);
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
