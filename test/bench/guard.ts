/**
 * Fails when an operation has lost a factor against bare `node:http`: the short form of the
 * benchmark, in half a minute, for every commit. It takes the best of its rounds, and more rounds
 * for what is still below, so that noise alone does not fail it.
 */
import { fill } from './catalogue.js';
import { bare, petstore } from './contestants.js';
import { sample } from './figures.js';
import { reached } from './goals.js';
import { clients, openLoad } from './load.js';
import { Session } from './session.js';
import { decimal, markdownTable } from './words.js';

/** Below this share of what was reached before an operation has collapsed. */
const collapse = 2 / 3;

const usualRounds = 2;
const mostRounds = 5;

const session = new Session();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void session.end().then(() => process.exit(130)));

try {
  const load = openLoad(session.folder());
  const [reference, ours] = [await session.start(bare), await session.start(petstore('memory:'))];
  await fill(ours.url);
  const tries = reached.map((goal) => ({ ...goal, best: 0, rounds: 0 }));
  for (let round = 0; round < mostRounds; round++) {
    for (const one of tries.filter(
      ({ best, ratio }) => round < usualRounds || best < ratio * collapse,
    )) {
      const bareUs = (await sample(reference, one.operation, load, clients.sleeping)).cpuUs;
      const ownUs = (await sample(ours, one.operation, load, clients.sleeping)).cpuUs;
      one.best = Math.max(one.best, bareUs / ownUs);
      one.rounds++;
    }
  }
  const rows = tries.map(({ operation, ratio, best, rounds }) => [
    operation.name,
    decimal(best),
    decimal(ratio),
    decimal(ratio * collapse),
    String(rounds),
  ]);
  process.stdout.write(
    `${load.name}, ratio to bare node:http, best of the rounds\n\n${markdownTable(['', 'ratio', 'reached before', 'least', 'rounds'], rows)}\n\n`,
  );
  const collapsed = tries.filter(({ best, ratio }) => best < ratio * collapse);
  process.stdout.write(`${tries.length - collapsed.length} passed, ${collapsed.length} failed\n`);
  for (const { operation } of collapsed)
    process.stdout.write(
      `${operation.name} has collapsed: ask \`make bench PARTS=speed\` for the whole picture\n`,
    );
  if (collapsed.length > 0) process.exitCode = 1;
} finally {
  await session.end();
}
