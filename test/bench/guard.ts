/**
 * Fails if an operation has become much slower than bare `node:http`. It takes half a minute, and
 * runs on every commit. It uses the best of several rounds, so that noise alone does not fail it.
 */
import { bare, petstore } from './contestants.js';
import { slice } from './figures.js';
import { clients, openLoad } from './load.js';
import { adding, reading } from './operations.js';
import { decimal, markdownTable } from './report.js';
import { fill, withCleanup, startContestant } from './servers.js';

/**
 * The usual ratios to bare `node:http`, on 2 cores of an AMD EPYC. The limit of `node:http` is 1.3
 * to 1.6 there.
 */
const reached = [
  [reading.one, 1.15],
  [reading.list20, 1.13],
  [reading.list100, 1.05],
  [reading.byStatus, 1.05],
  [reading.noKey, 1.2],
  [reading.notFound, 1.15],
  [adding, 1.0],
] as const;

/** Below this share of its usual ratio, an operation fails. */
const collapse = 2 / 3;

const usualRounds = 2;
const mostRounds = 5;

await withCleanup(async (scope) => {
  const load = openLoad(scope);
  const reference = await startContestant(scope, bare);
  const ours = await startContestant(scope, petstore('memory:'));
  await fill(ours);
  const tracks = reached.map(([operation, ratio]) => {
    const least = ratio * collapse;
    return { operation, ratio, least, best: 0, rounds: 0 };
  });
  // Each round has all operations, so that other work of the machine spoils one round of each, not
  // all rounds of one.
  for (let round = 0; round < mostRounds; round++) {
    for (const track of tracks) {
      if (round >= usualRounds && track.best >= track.least) continue;
      const usOf = async (server: typeof ours): Promise<number> =>
        (await slice(load, { server, operation: track.operation }, clients.sleeping)).cpuUs;
      track.best = Math.max(track.best, (await usOf(reference)) / (await usOf(ours)));
      track.rounds++;
    }
  }
  const rows = tracks.map(({ operation, ratio, least, best, rounds }) => {
    const figures = [best, ratio, least].map((each) => decimal(each));
    return [operation.name, ...figures, String(rounds), best < least ? 'collapsed' : ''];
  });
  const collapsed = tracks.filter(({ best, least }) => best < least).length;
  const head = ['', 'ratio', 'usual ratio', 'least ratio', 'rounds', ''];
  process.stdout.write(
    `${load.name}, ratio to bare node:http, best of the rounds\n\n${markdownTable(head, rows)}\n\n`,
  );
  process.stdout.write(`${rows.length - collapsed} passed, ${collapsed} failed\n`);
  if (collapsed === 0) return;
  process.stdout.write('Run `make bench PARTS=speed` for all figures.\n');
  process.exitCode = 1;
});
