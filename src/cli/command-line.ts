/** Runs the command line and reports its failures. */
import { createRequire } from 'node:module';
import { codeOf, PetstoreError } from '../index.js';
import { denialOf, detailOf } from '../errors.js';
import { commands, otherWords } from './commands.js';
import { commandHelp, mainHelp, type HelpPart } from './help-text.js';
import {
  messageLine,
  plainReason,
  print,
  printInColour,
  quoteWord,
  Refusal,
  refuse,
} from './output.js';
import { commandNames, type CommandName } from './option-table.js';
import { readNodeInterface } from './setting-values.js';
import { Settings } from './settings.js';
import { suggestion } from './suggestion.js';
import { warnOfUnknownVariables } from './unknown-variables.js';

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
    warnOfUnknownVariables(process.env);
    const { version }: { readonly version: string } = createRequire(import.meta.url)(
      '../../package.json',
    );
    const { nodeUseFor } = await import('../http/index.js');
    const { mode } = await nodeUseFor(readNodeInterface(settings));
    return print([version, `HTTP on Node ${process.versions.node}: ${mode}`]);
  }

  const isHelp = name === 'help';
  const word = isHelp ? operands.find((other) => other !== 'help') : name;
  if (isHelp && word === 'faults') return printHelp((await import('./fault-help.js')).faultsHelp());
  const command = word === undefined ? undefined : commandOf(word);

  if (isHelp || settings.find('--help'))
    return printHelp(command === undefined ? mainHelp() : commandHelp(command));

  const { load } = commands[command ?? 'serve'];
  settings.refuseOthers(command ?? 'serve');
  warnOfUnknownVariables(process.env);

  // server.ts ignores SIGHUP during a start, but another command must end with its terminal.
  if (command !== undefined && command !== 'serve') process.removeAllListeners('SIGHUP');

  checkWorkingFolder();
  const module = await load();
  return module.run(settings, operands);
}

/** Returns the command of this name. @throws Refusal if the name is unknown */
function commandOf(word: string): CommandName {
  const found = commandNames.find((name) => name === word);
  if (found !== undefined) return found;

  const other = otherWords.get(word.toLowerCase());
  const hint =
    other === undefined ? suggestion(word, [...commandNames, 'help', 'faults']) : undefined;
  refuse(`unknown command ${quoteWord(word)}${hint ?? `; did you mean ${other}?`}`);
}

async function printHelp(parts: readonly HelpPart[]): Promise<void> {
  for (const [index, { heading, lines }] of parts.entries()) {
    if (index > 0) await print(['']);
    if (heading !== undefined) await printInColour(heading, 1);
    await print(lines);
  }
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
