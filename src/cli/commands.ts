/** The table of commands, from which the help is made. */
import { program } from './output.js';
import type { CommandName } from './option-table.js';
import type { Run } from './settings.js';

/** The groups of commands, in the order of the help. */
export const groups = ['Serve', 'Keys', 'Data', 'Verify'] as const;

/** A command of the command line. Its options are the rows of option-table.ts that name it. */
interface Command {
  readonly group: (typeof groups)[number];
  /** The forms of the command with their descriptions. */
  readonly usage: readonly [UsageForm, ...UsageForm[]];
  /** Example command lines. The main help shows the first one of a group. */
  readonly examples: readonly [string, ...string[]];
  /** Imports the module of the command when it runs, so that a server starts faster. */
  readonly load: () => Promise<{ readonly run: Run }>;
}

type UsageForm = readonly [form: string, about: string];

/** Every command by its name, in the order of the help. */
export const commands: Readonly<Record<CommandName, Command>> = {
  serve: {
    group: 'Serve',
    usage: [['serve [options]', 'start a server, which needs an API key; also without `serve`']],
    examples: [
      `${program} --dev`,
      `${program} --port 8080 --storage file:/srv/pets.jsonl`,
      `PETSTORE_API_KEYS=secret ${program} --storage memory: --plugin faults`,
    ],
    load: () => import('./start.js'),
  },
  keys: {
    group: 'Keys',
    usage: [
      ['keys add NAME [--expires TIME]', 'make a key, print it once, store its digest'],
      ['keys list [--json]', 'list the keys with their creation and expiry'],
      ['keys revoke NAME', 'remove a key; running servers reject it within 2 s'],
    ],
    examples: [
      `${program} keys add alice --expires 90d`,
      `${program} keys list --json`,
      `${program} keys revoke alice`,
    ],
    load: () => import('./keys.js'),
  },
  import: {
    group: 'Data',
    usage: [
      ['import FILE [--after LINE]', 'add the pets of a JSON Lines file; - is standard input'],
    ],
    examples: [
      `${program} import data/animals.jsonl`,
      `${program} import more.jsonl --storage file:/srv/pets.jsonl`,
    ],
    load: () => import('./import.js'),
  },
  copy: {
    group: 'Data',
    usage: [
      ['copy --from STORAGE --to STORAGE', 'copy all pets with their ids; run again, it resumes'],
    ],
    examples: [
      `${program} copy --from file:data/pets.jsonl --to file:data/copy.jsonl`,
      `PETSTORE_TO=postgres://db/pets ${program} copy --from file:a.jsonl`,
    ],
    load: () => import('./copy.js'),
  },
  migrate: {
    group: 'Data',
    usage: [['migrate [--print]', 'create or update the tables of a database, or print the SQL']],
    examples: [
      `PETSTORE_STORAGE=postgres://ann:secret@db/pets ${program} migrate`,
      `${program} migrate --print | psql postgres://ann@db/pets`,
    ],
    load: () => import('./migrate.js'),
  },
  check: {
    group: 'Data',
    usage: [['check FILE [--salvage OUT]', 'report what a storage file holds and if it is sound']],
    examples: [
      `${program} check data/pets.jsonl`,
      `${program} check data/pets.jsonl --salvage data/saved.jsonl`,
    ],
    load: () => import('./check.js'),
  },
  verify: {
    group: 'Verify',
    usage: [['verify URL', 'test any petstore against the contract']],
    examples: [
      `${program} verify http://127.0.0.1:3000 --key-file data/dev-key`,
      `PETSTORE_KEY=… ${program} verify https://api.example --level http`,
      `${program} verify --list --level http`,
    ],
    load: () => import('./verify.js'),
  },
};

/** Words that other programs have for a command, and what this program has. */
export const otherWords: ReadonlyMap<string, string> = new Map([
  ['start', 'serve'],
  ['run', 'serve'],
  ['server', 'serve'],
  ['dev', '--dev'],
  ['version', '--version'],
  ['add', 'keys add'],
  ['list', 'keys list'],
  ['ls', 'keys list'],
  ['revoke', 'keys revoke'],
  ['load', 'import'],
  ['export', 'copy'],
  ['backup', 'copy'],
  ['validate', 'check'],
  ['test', 'verify'],
  ['faults', 'help faults'],
]);
