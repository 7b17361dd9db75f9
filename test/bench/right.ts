/**
 * Runs the suite of `petstore verify` at each level against this petstore and other servers. It
 * prints the table of docs/evidence.md and writes it to the file FIGURES. SHORT tests only this
 * petstore.
 */
import { fileURLToPath } from 'node:url';
import { countRules, levels, verifyPetstore, type Verdict } from '../../dist/conformance/index.js';
import { npxArgs, programs } from '../ecosystem/scene.js';
import { atEnd, CleanupScope, type Ending } from '../support/at-end.js';
import { callersEnvironment } from '../support/environment.js';
import { freePort, root, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { bare, peer, peers, petstore, versionOfPeer, type Contestant } from './contestants.js';
import { benchmarkKey } from './operations.js';
import { keep, minutesSoFar, none, section, type Table } from './report.js';
import { startContestant } from './servers.js';

/** A server to test: its name and version, and a function that starts it and returns its URL. */
export type Candidate = readonly [name: string, start: (t: Ending) => Promise<string>];

const ours = listening('petstore', petstore('memory:'));
const fixed = listening('bare `node:http`, one fixed response', bare);

/** Returns the servers of others, in the order of the table. */
function others(): readonly Candidate[] {
  return [
    ...peers.map((each) => listening(`${each.name} ${versionOfPeer(each.name)}`, each)),
    [`openapi-backend ${versionOfPeer('openapi-backend')}, mocking`, startStub],
    [`Prism ${programs.prism.replace(/^.*@/, '')}, mocking`, startPrism],
  ];
}

/** Tests each candidate at each level, and returns the table of the results. */
export async function tableOfRight(
  candidates: readonly Candidate[],
  say: (what: string) => void = () => undefined,
): Promise<Table> {
  const rows: (readonly string[])[] = [];
  for (const [name, start] of candidates) {
    const cells: string[] = [];
    let failing = none;
    for (const level of levels) {
      say(`${name}, ${level}`);
      const scope = new CleanupScope();
      const verdicts: Verdict[] = [];
      try {
        const url = await start(scope);
        for await (const verdict of verifyPetstore({ url, key: benchmarkKey, level }))
          verdicts.push(verdict);
      } finally {
        await scope.end();
      }
      cells.push(cellOf(verdicts));
      const failed = numbersOf(verdicts, 'failed');
      if (level === 'specification') failing = failed.join(', ') || none;
    }
    rows.push([name, ...cells, failing]);
  }

  const heads = levels.map((level) => `\`${level}\`, ${countRules({ level })} rules`);
  return {
    key: 'right',
    title: 'Correctness of other petstores',
    head: ['', ...heads, 'rules that fail at `specification`'],
    rows,
  };
}

/** Returns the numbers of the rules with an outcome. */
function numbersOf(verdicts: readonly Verdict[], outcome: Verdict['outcome']): readonly string[] {
  return verdicts.filter((each) => each.outcome === outcome).map(({ number }) => number);
}

/** The outcomes that a cell names, in the words of `petstore verify`. */
const otherOutcomes = [
  ['warned', 'with a warning'],
  ['untried', 'not tried'],
  ['inapplicable', 'not applicable'],
] as const;

/** Returns the count of rules that hold, of all rules, such as `56 of 57 (1 not applicable)`. */
function cellOf(verdicts: readonly Verdict[]): string {
  const rest = otherOutcomes.flatMap(([outcome, words]) => {
    const { length } = numbersOf(verdicts, outcome);
    return length === 0 ? [] : [`${length} ${words}`];
  });
  const sum = `${numbersOf(verdicts, 'passed').length} of ${verdicts.length}`;
  return rest.length === 0 ? sum : `${sum} (${rest.join(', ')})`;
}

function listening(name: string, contestant: Contestant): Candidate {
  return [name, async (t) => (await startContestant(t, contestant)).url];
}

/** Starts a petstore, and returns the URL of its OpenAPI document, from which mocks are made. */
async function documentAddress(t: Ending): Promise<string> {
  return `${await ours[1](t)}/openapi.json`;
}

/** Starts a stub that openapi-backend makes from the document. */
async function startStub(t: Ending): Promise<string> {
  const stub = peer('openapi-backend', 'openapi-backend', await documentAddress(t));
  return (await startContestant(t, stub)).url;
}

/** Starts Prism, which logs no JSON and ignores the base path of the document. */
async function startPrism(t: Ending): Promise<string> {
  const port = await freePort();
  const args = npxArgs('prism', 'mock', '--port', port, await documentAddress(t));
  const prism = new StartedProcess('npx', args, {
    cwd: root,
    env: callersEnvironment,
    isGroup: true,
  });
  atEnd(t, () => prism.end('SIGKILL'));

  // npx may have to download it first.
  await until('Prism', () => prism.output.includes('is listening'), 300_000);
  return `http://127.0.0.1:${port}//`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const say = (what: string) => void process.stderr.write(`… ${what}\n`);
  const isShort = callersEnvironment['SHORT'] !== undefined;
  const table = await tableOfRight([ours, ...(isShort ? [] : others()), fixed], say);
  process.stdout.write(`${section(table)}\n`);
  keep(`The suite of \`petstore verify\`, ${minutesSoFar()}.`, [table]);
}
