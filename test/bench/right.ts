/**
 * Asks which petstores answer right: the suite that `petstore verify` runs, at each of its levels, on
 * ours and on others'. Run by itself it prints the table of docs/evidence.md, and keeps it where
 * FIGURES says so; SHORT asks ours alone.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { countRules, levels, verifyPetstore, type Level } from '../../dist/conformance/index.js';
import { npxArgs, programs } from '../ecosystem/scene.js';
import { freePort, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { bare, peers, petstore, stub, type Contestant } from './contestants.js';
import { apiKey } from './operations.js';
import { Session } from './session.js';
import { keep, none, section, type Table } from './report.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A server that may answer right. */
export interface Candidate {
  /** Its name and version. */
  readonly name: string;
  /** Starts it anew, until the end of the session; answers its address. */
  readonly start: (session: Session) => Promise<string>;
}

/** What came of the rules of one level. */
interface Score {
  /** How many hold of how many, and how many could not be tried. */
  readonly sum: string;
  /** The numbers that fail. */
  readonly failing: readonly string[];
}

const ours: Candidate = candidate('petstore', petstore('memory:'));
const fixed: Candidate = candidate('bare `node:http`, one answer to all', bare);

/** What has nothing to be installed. */
export const own: readonly Candidate[] = [ours, fixed];

/** All, in the order of the table. */
export const all: readonly Candidate[] = [
  ours,
  ...peers.map((peer) => candidate(`${peer.name} ${versionOf(peer.name)}`, peer)),
  { name: `openapi-backend ${versionOf('openapi-backend')}, mocking`, start: startStub },
  { name: `Prism ${programs.prism.replace(/^.*@/, '')}, mocking`, start: startPrism },
  fixed,
];

/** The table: a row each, which holds what came of each level. */
export async function tableOfRight(
  candidates: readonly Candidate[],
  say: (what: string) => void = () => undefined,
): Promise<Table> {
  const rows: (readonly string[])[] = [];
  for (const { name, start } of candidates) {
    const scores = new Map<Level, Score>();
    for (const level of levels) {
      say(`${name}, ${level}`);
      scores.set(level, await scoreOf(start, level));
    }
    const failing = scores.get('specification')?.failing.join(', ') || none;
    rows.push([name, ...levels.map((level) => scores.get(level)?.sum ?? none), failing]);
  }

  const heads = levels.map((level) => `\`${level}\`, ${countRules({ level })} rules`);
  return {
    key: 'right',
    title: 'Which petstores answer right',
    head: ['', ...heads, 'numbers that fail at `specification`'],
    rows,
  };
}

/** Tries a server that begins anew. */
async function scoreOf(start: Candidate['start'], level: Level): Promise<Score> {
  const session = new Session();
  try {
    const url = await start(session);
    const failing: string[] = [];
    const counts = { passed: 0, failed: 0, untried: 0 };
    for await (const { number, outcome } of verifyPetstore({ url, key: apiKey, level })) {
      counts[outcome]++;
      if (outcome === 'failed') failing.push(number);
    }

    const { passed, failed, untried } = counts;
    const rest = untried === 0 ? '' : ` (${untried} not tried)`;
    return { sum: `${passed} of ${passed + failed}${rest}`, failing };
  } finally {
    await session.end();
  }
}

function candidate(name: string, contestant: Contestant): Candidate {
  return { name, start: async (session) => (await session.start(contestant)).url };
}

/** The version of a peer's package, as it is locked. */
function versionOf(name: string): string {
  const lock = readFileSync(join(root, 'test/bench/peers/package-lock.json'), 'utf8');
  const { packages }: { packages: Readonly<Record<string, { readonly version: string }>> } =
    JSON.parse(lock);
  return packages[`node_modules/${name}`]?.version ?? none;
}

/** The document of a petstore, which mocks are made of. */
async function documentAddress(session: Session): Promise<string> {
  return `${(await session.start(petstore('memory:'))).url}/openapi.json`;
}

async function startStub(session: Session): Promise<string> {
  return (await session.start(stub(await documentAddress(session)))).url;
}

/** Prism has no line of a log for programs, and serves without the base path of the document. */
async function startPrism(session: Session): Promise<string> {
  const port = await freePort();
  const args = npxArgs('prism', 'mock', '--port', port, await documentAddress(session));
  const prism = new StartedProcess('npx', args, { cwd: root, env: process.env, isGroup: true });
  session.atEnd(() => prism.end('SIGKILL'));

  // The first time npx downloads it.
  const listens = () => prism.output.includes('is listening');
  await until('Prism', listens, 300_000);
  return `http://127.0.0.1:${port}//`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const say = (what: string) => void process.stderr.write(`… ${what}\n`);
  const table = await tableOfRight(process.env['SHORT'] === undefined ? all : own, say);
  process.stdout.write(`${section(table)}\n`);
  keep('the suite of `petstore verify`.', [table]);
}
