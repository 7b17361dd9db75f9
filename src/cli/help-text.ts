/** Composes the help from the tables of commands, options and plugins. */
import { commands, groups } from './commands.js';
import { helpParagraph, helpRow } from './help.js';
import { program } from './output.js';
import { pluginsHelp } from './plugins.js';
import {
  commandNames,
  isFlag,
  optionNames,
  optionOf,
  optionsOf,
  type CommandName,
  type OptionName,
} from './option-table.js';

/** A part of a help, which a blank line separates from the next part. */
export interface HelpPart {
  /** Omitted for a paragraph. */
  readonly heading?: string;
  readonly lines: readonly string[];
}

const indented = (lines: readonly string[]) => lines.map((line) => `  ${line}`);

/** Returns the main help: the commands in groups, each group with an example. */
export function mainHelp(): readonly HelpPart[] {
  return [
    { lines: ['petstore: a petstore server over HTTP and JSON'] },
    { heading: 'Usage:', lines: indented([`${program} [COMMAND] [options]`]) },
    ...groups.map(groupHelp),
    { heading: 'Common options of `serve`:', lines: mainOptionsHelp('common') },
    { heading: 'Options of every command:', lines: mainOptionsHelp('general') },
    {
      heading: 'More:',
      lines: [
        ...helpRow('help COMMAND', ['options, variables and examples of a command']),
        ...helpRow('help serve', ['also plugins, signals and exit codes']),
        ...helpRow('help faults', ['the words of the plugin faults, each with an example']),
      ],
    },
  ];
}

function groupHelp(group: (typeof groups)[number]): HelpPart {
  const members = commandNames.filter((name) => commands[name].group === group);
  const [example = ''] = members.flatMap((name) => commands[name].examples);
  return {
    heading: `${group}:`,
    lines: [
      ...members.flatMap((name) =>
        commands[name].usage.flatMap(([form, about]) => helpRow(form, [about])),
      ),
      '  Example:',
      `    ${example}`,
    ],
  };
}

/** Returns the help of a command. */
export function commandHelp(name: CommandName): readonly HelpPart[] {
  const { usage, examples } = commands[name];
  return [
    {
      heading: 'Usage:',
      lines: usage.flatMap(([form, about]) => helpRow(`${program} ${form}`, [about])),
    },
    { heading: 'Options, [environment variables] and defaults:', lines: optionsHelp(name) },
    ...(name === 'serve' ? serverHelp() : []),
    { heading: 'Examples:', lines: indented(examples) },
  ];
}

/** Returns the parts that only the help of `serve` has. */
function serverHelp(): readonly HelpPart[] {
  const precedence = 'A flag overrides the environment, which overrides the default.';
  const signals =
    'SIGTERM and SIGINT finish the requests in flight. SIGHUP reads the keys file and the TLS ' +
    'files again; on a terminal, and with --dev, it stops the server.';
  const exitCodes = [
    ['0', 'success'],
    ['1', 'a request was cut, the server did not close in time, or a rule is broken'],
    ['2', 'an option, a key or a file is not valid'],
    ['3', 'the storage cannot be used, a rule was not tried, or no server responds'],
    ['70', 'an error in this program'],
  ] as const;

  return [
    { lines: helpParagraph(precedence, 0) },
    {
      heading: 'Plugins: a path that starts with ./ or /, a package, or one of these:',
      lines: pluginsHelp(),
    },
    { heading: 'Signals:', lines: helpParagraph(signals, 2) },
    {
      heading: 'Exit codes of all commands:',
      lines: exitCodes.flatMap(([code, about]) => helpRow(code, [about])),
    },
  ];
}

/** Returns the lines of the help about the options of a command. */
function optionsHelp(command: CommandName): readonly string[] {
  return optionsOf(command).flatMap((name) => optionHelp(name, command));
}

/** Returns the lines of the main help about options: the common ones, or those of every command. */
function mainOptionsHelp(which: 'common' | 'general'): readonly string[] {
  const isCommon = (name: OptionName) => optionOf(name).isCommon === true;
  const isGeneral = (name: OptionName) => optionOf(name).of.length === commandNames.length;
  const shown = optionNames.filter(which === 'common' ? isCommon : isGeneral);
  return shown.flatMap((name) => optionHelp(name, 'serve'));
}

function optionHelp(name: OptionName, command: CommandName): readonly string[] {
  const { variable, value, about, fallback } = optionOf(name, command);
  return helpRow(value === undefined ? name : `${name} ${value}`, [
    about,
    ...(isFlag(name) && variable !== undefined ? [`[${variable}]`] : []),
    ...(fallback === undefined ? [] : [`(default ${fallback})`]),
  ]);
}
