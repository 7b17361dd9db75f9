/** Runs the command line and reports its failures. Other folders import only this module of cli. */
import { createRequire } from 'node:module';
import { codeOf, PetstoreError } from '../index.js';
import { denialOf, detailOf } from '../errors.js';
import { helpParagraph, helpRow } from './help.js';
import { messageLine, plainReason, print, program, quoteWord, Refusal, refuse } from './output.js';
import { pluginsHelp } from './plugins.js';
import {
  optionsHelp,
  serverOptions,
  Settings,
  readNodeInterface,
  suggestion,
  type OptionName,
  type Run,
} from './settings.js';

/** A command of the command line. */
interface Command {
  /** The forms of the command with their descriptions, for the help. */
  readonly usage: readonly (readonly [form: string, about: string])[];
  /** The options that the command accepts. */
  readonly options: readonly OptionName[];
  /** Example command lines, for the help of the command. */
  readonly examples: string;
  /** Imports the module of the command when it runs, so that a server starts faster. */
  readonly load: () => Promise<{ readonly run: Run }>;
}

/** The start of a server, which has no command name. */
const start: Command = {
  usage: [],
  options: serverOptions,
  examples: '',
  load: () => import('./start.js'),
};

const commands = new Map(
  Object.entries<Command>({
    keys: {
      usage: [
        ['keys add NAME [--expires TIME]', 'make a key, print it once, store its digest'],
        ['keys list', 'list the keys with their creation and expiry'],
        ['keys revoke NAME', 'remove a key; running servers reject it within 2 s'],
      ],
      options: ['--keys-file', '--expires'],
      examples: `
  ${program} keys add alice --expires 90d
  ${program} keys revoke alice`,
      load: () => import('./keys.js'),
    },
    import: {
      usage: [
        ['import FILE [--after LINE]', 'add the pets of a JSON Lines file; - is standard input'],
      ],
      options: ['--storage', '--after'],
      examples: `
  ${program} import data/animals.jsonl
  ${program} import more.jsonl --storage file:/srv/pets.jsonl`,
      load: () => import('./import.js'),
    },
    copy: {
      usage: [
        ['copy --from STORAGE --to STORAGE', 'copy all pets with their ids; run again, it resumes'],
      ],
      options: ['--from', '--to'],
      examples: `
  ${program} copy --from file:data/pets.jsonl --to file:data/copy.jsonl
  PETSTORE_TO=postgres://db/pets ${program} copy --from file:a.jsonl`,
      load: () => import('./copy.js'),
    },
    migrate: {
      usage: [['migrate [--print]', 'create or update the tables of a database, or print the SQL']],
      options: ['--storage', '--print'],
      examples: `
  PETSTORE_STORAGE=postgres://ann:secret@db/pets ${program} migrate
  ${program} migrate --print | psql postgres://ann@db/pets`,
      load: () => import('./migrate.js'),
    },
    check: {
      usage: [
        ['check FILE [--salvage OUT]', 'report what a storage file holds and if it is sound'],
      ],
      options: ['--salvage'],
      examples: `
  ${program} check data/pets.jsonl
  ${program} check data/pets.jsonl --salvage data/saved.jsonl`,
      load: () => import('./check.js'),
    },
    verify: {
      usage: [['verify URL', 'test any petstore against the contract']],
      options: [
        '--key',
        '--key-file',
        '--level',
        '--only',
        '--list',
        '--slow',
        '--category',
        '--timeout',
        '--allow-untried',
        '--format',
      ],
      examples: `
  ${program} verify http://127.0.0.1:3000 --key-file data/dev-key
  PETSTORE_KEY=… ${program} verify https://api.example --level http
  ${program} verify --list --level http`,
      load: () => import('./verify.js'),
    },
  }),
);

/**
 * Runs the command line of this process. If it fails, it prints the reason and exits with 2 for a
 * Refusal, 3 for an error of a storage, or 70 for an error in this program.
 *
 * @throws EMFILE or ENFILE, which server.ts reports
 */
export async function main(): Promise<void> {
  // The reader of a pipe may be gone. That must not end a server; `print` reports it for a command.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);

  try {
    await runCommand(new Settings(process.argv.slice(2)));
  } catch (error) {
    if (['EMFILE', 'ENFILE'].includes(codeOf(error) ?? '')) throw error;

    const denial = denialOf(error);
    const isForOperator = error instanceof Refusal || error instanceof PetstoreError;
    const text = isForOperator ? messageLine(error.message) : (denial ?? detailOf(error));
    process.stderr.write(`${text}\n`);
    // A plugin may have started timers, which would keep the process alive.
    process.exit(
      error instanceof PetstoreError ? 3 : isForOperator || denial !== undefined ? 2 : 70,
    );
  }
}

async function runCommand(settings: Settings): Promise<void> {
  const [name, ...operands] = settings.operands;

  if (settings.find('--version')) {
    const { version }: { readonly version: string } = createRequire(import.meta.url)(
      '../../package.json',
    );
    const { modeFor } = await import('../http/index.js');
    const mode = await modeFor(readNodeInterface(settings));
    return print([version, `HTTP on Node ${process.versions.node}: ${mode}`]);
  }

  const isHelp = name === 'help';
  const commandName = isHelp ? operands.find((word) => word !== 'help') : name;
  const command = commandName === undefined ? start : commands.get(commandName);
  if (command === undefined)
    refuse(
      `unknown command ${quoteWord(commandName ?? '')}` +
        suggestion(commandName ?? '', [...commands.keys(), 'help']),
    );

  if (isHelp || settings.find('--help')) return print(command === start ? help() : helpOf(command));

  settings.refuseOthers(command.options, name ?? 'a start');

  // server.ts ignores SIGHUP during a start, but a command must end with its terminal.
  if (command !== start) process.removeAllListeners('SIGHUP');

  checkWorkingFolder();
  const module = await command.load();
  return module.run(settings, operands);
}

/**
 * Checks that files can be named below the working folder.
 *
 * @throws Refusal if the folder is gone or its name is not UTF-8
 */
function checkWorkingFolder(): void {
  const hint = 'run the command in another folder';
  try {
    if (!process.cwd().includes('\ufffd')) return;
  } catch (error) {
    refuse(`the working folder cannot be used (${plainReason(error)}); ${hint}`);
  }
  refuse(`the name of the working folder has bytes that are not UTF-8; ${hint}`);
}

const usageRows = ({ usage }: Command) =>
  usage.flatMap(([form, about]) => helpRow(form, [about])).join('\n');

/** Returns the lines of the help of one command. */
function helpOf(command: Command): readonly string[] {
  return `Usage, after ${program}:

${usageRows(command)}

Options, [environment variables] and defaults:
${optionsHelp(command.options).join('\n')}

Examples:${command.examples}`.split('\n');
}

const paragraph = (text: string) => helpParagraph(text).join('\n');

/** Returns the lines of the main help. */
function help(): readonly string[] {
  const oneCommand =
    '`help COMMAND` and `COMMAND --help` print the help of a command. Without a command, a ' +
    'server starts, which needs an API key.';
  const options =
    'Options, [environment variables] and defaults. A flag overrides the environment, which ' +
    'overrides the default:';
  const plugins =
    'Plugins: a path that starts with ./ or /, a package, or one of these shipped plugins:';
  const exitCodes =
    'Exit codes: 0 success; 1 a request was cut, the server did not close in time, or a rule is ' +
    'broken; 2 an invalid option, key or file; 3 the storage cannot be used, a rule was not ' +
    'tried, or no server responds; 70 an error in this program.';
  const signals =
    'SIGTERM and SIGINT finish the requests in flight. SIGHUP reads the keys file and the TLS ' +
    'files again; on a terminal, and with --dev, it stops the server.';

  return `petstore: a petstore server over HTTP and JSON.

Usage: ${program} [options], or one of these commands

${[...commands.values()].map(usageRows).join('\n')}

${paragraph(oneCommand)}

${paragraph(options)}
${optionsHelp().join('\n')}

${paragraph(plugins)}
${pluginsHelp().join('\n')}

${paragraph(exitCodes)}
${paragraph(signals)}

Examples:
  ${program} --dev
  ${program} keys add alice --expires 90d
  ${program} --port 8080
  ${program} import data/animals.jsonl --storage file:/srv/pets.jsonl`.split('\n');
}
