/** The options of the process: their table, their values, and refusals that name their source. */
import { defaultInterface, loadTls, nodeInterfaces, type NodeInterface } from '../http/index.js';
import type { TlsPair } from '../index.js';
import { readRegularFile } from './files.js';
import { helpRow } from './help.js';
import { orRefuse, quote, quoteWord, refuse } from './output.js';
import { checkText, type Setting, type TextKind } from './setting-text.js';
import { suggestion } from './suggestion.js';

export { readPath, type Setting } from './setting-text.js';

/** The commands. A command line without a command is that of `serve`. */
export const commandNames = [
  'serve',
  'keys',
  'import',
  'copy',
  'migrate',
  'check',
  'verify',
] as const;

/** The name of a command. */
export type CommandName = (typeof commandNames)[number];

/** An option of the process. */
interface Option {
  /** The commands that accept the option, and whose help describes it. */
  readonly of: readonly [CommandName, ...CommandName[]];
  /** True if the main help describes the option too. */
  readonly isCommon?: true;
  /** The environment variable; omitted for an option of a command. */
  readonly variable?: string;
  /** The placeholder for the value in the help; omitted for a switch. */
  readonly value?: string;
  /** The description in the help. */
  readonly about: string;
  /** The default value that the help shows. */
  readonly fallback?: string;
  /** True if the flag is repeatable. */
  readonly isRepeatable?: true;
  /** The kind of free text; omitted if the value has an exact form. */
  readonly holds?: TextKind;
  /** The meaning of the flag for one of the commands, where the variable does not count. */
  readonly otherwise?: {
    readonly of: CommandName;
    readonly value: string;
    readonly about: string;
  };
}

/** Every option by its flag, in the order of the help. The API keys have only a variable. */
const options = {
  '--host': {
    of: ['serve'],
    variable: 'HOST',
    value: 'ADDRESS',
    about: 'address to listen on',
    fallback: '127.0.0.1',
  },
  '--port': {
    isCommon: true,
    of: ['serve'],
    variable: 'PORT',
    value: 'PORT',
    about: 'port to listen on; 0 takes a free one',
    fallback: '3000',
  },

  '--storage': {
    isCommon: true,
    of: ['serve', 'import', 'migrate'],
    variable: 'PETSTORE_STORAGE',
    value: 'STORAGE',
    about: 'file:PATH, memory:, postgres://…',
    fallback: 'file:data/pets.jsonl',
    holds: 'storage',
  },
  '--seed': {
    of: ['serve', 'verify'],
    variable: 'PETSTORE_SEED',
    value: 'FILE',
    about: 'JSON Lines with the pets of an empty storage',
    holds: 'path',
    otherwise: { of: 'verify', value: 'NUMBER', about: 'repeat the stories of this seed' },
  },
  '--clock': {
    of: ['serve'],
    variable: 'PETSTORE_CLOCK',
    value: 'TIME',
    about: 'time at which the clock starts; only with memory:',
  },

  '--isolate': {
    of: ['serve'],
    about: 'a store, rules and clock for each API key; only with memory:',
  },
  '--journal-size': {
    of: ['serve'],
    variable: 'PETSTORE_JOURNAL_SIZE',
    value: 'COUNT',
    about: 'requests that the plugin faults keeps for /v1/requests, up to 10000',
    fallback: '1000',
  },

  PETSTORE_API_KEYS: {
    of: ['serve'],
    variable: 'PETSTORE_API_KEYS',
    about: 'API keys, separated by commas',
    holds: 'key',
  },
  '--keys-file': {
    isCommon: true,
    of: ['serve', 'keys'],
    variable: 'PETSTORE_KEYS_FILE',
    value: 'FILE',
    about: 'made by `keys add`; data/keys.json if it exists',
    holds: 'path',
  },

  '--plugin': {
    isCommon: true,
    of: ['serve'],
    variable: 'PETSTORE_PLUGINS',
    value: 'PLUGIN',
    about: 'plugin to load, repeatable',
    isRepeatable: true,
    holds: 'plugin',
  },
  '--cors-origin': {
    of: ['serve'],
    variable: 'PETSTORE_CORS_ORIGINS',
    value: 'ORIGIN',
    about: 'origin whose pages may call the API, repeatable',
    isRepeatable: true,
    holds: 'text',
  },

  '--max-body-bytes': {
    of: ['serve'],
    variable: 'PETSTORE_MAX_BODY_BYTES',
    value: 'BYTES',
    about: 'longest request body',
    fallback: '65536',
  },
  '--drain': {
    of: ['serve'],
    variable: 'PETSTORE_DRAIN',
    value: 'SECONDS',
    about: 'keep serving for SECONDS after SIGTERM, with /readyz at 503',
    fallback: '0',
  },
  '--keep-alive': {
    of: ['serve'],
    variable: 'PETSTORE_KEEP_ALIVE',
    value: 'SECONDS',
    about: 'close a connection after it was idle for SECONDS',
    fallback: '72',
  },

  '--node-interface': {
    of: ['serve'],
    variable: 'PETSTORE_NODE_INTERFACE',
    value: 'NAME',
    about: "auto, check (this Node first), or documented (only Node's documented interface)",
    fallback: 'auto',
  },

  '--base-url': {
    of: ['serve'],
    variable: 'PETSTORE_BASE_URL',
    value: 'URL',
    about: 'public base URL; its path prefixes links',
    holds: 'text',
  },
  '--staging-base-url': {
    of: ['serve'],
    variable: 'PETSTORE_STAGING_BASE_URL',
    value: 'URL',
    about: 'public base URL in staging, for OpenAPI',
    holds: 'text',
  },

  '--tls-cert': {
    of: ['serve'],
    variable: 'PETSTORE_TLS_CERT',
    value: 'FILE',
    about: 'certificate chain in PEM, to serve HTTPS',
    holds: 'path',
  },
  '--tls-key': {
    of: ['serve'],
    variable: 'PETSTORE_TLS_KEY',
    value: 'FILE',
    about: 'private key of the certificate in PEM',
    holds: 'path',
  },

  '--log': {
    of: ['serve'],
    variable: 'PETSTORE_LOG',
    value: 'LEVEL',
    about: 'silent, info or requests',
    fallback: 'info',
  },
  '--log-format': {
    of: ['serve'],
    variable: 'PETSTORE_LOG_FORMAT',
    value: 'FORMAT',
    about: 'text (default on a terminal) or json',
  },

  '--dev': {
    isCommon: true,
    of: ['serve'],
    about: 'try it out: make data/dev-key, print a curl command, serve /docs',
  },

  '--json': { of: ['keys'], about: '`keys list` as a JSON array, with exact times' },
  '--expires': { of: ['keys'], value: 'TIME', about: 'lifetime, such as 90d, 12h, 30m, 60s' },
  '--after': {
    of: ['import'],
    value: 'LINE',
    about: 'skip the lines up to this one',
    fallback: '0',
  },
  '--salvage': {
    of: ['check'],
    value: 'OUT',
    about: 'save what is sound to a new file',
    holds: 'path',
  },
  '--from': {
    of: ['copy'],
    variable: 'PETSTORE_FROM',
    value: 'STORAGE',
    about: 'storage to copy from',
    holds: 'storage',
  },
  '--to': {
    of: ['copy'],
    variable: 'PETSTORE_TO',
    value: 'STORAGE',
    about: 'storage to copy to',
    holds: 'storage',
  },

  '--print': { of: ['migrate'], about: 'print the SQL for a database administrator' },

  '--key': {
    of: ['verify'],
    variable: 'PETSTORE_KEY',
    value: 'KEY',
    about: 'API key of the server; `ps` shows a flag',
    holds: 'key',
  },
  '--key-file': { of: ['verify'], value: 'FILE', about: 'file with the API key', holds: 'path' },
  '--category': {
    of: ['verify'],
    value: 'N',
    about: 'category of the pets that are added',
    fallback: '5',
  },
  '--level': {
    of: ['verify'],
    value: 'LEVEL',
    about: 'specification, http or full',
    fallback: 'full',
  },
  '--slow': { of: ['verify'], about: 'also try the deadlines (half a minute)' },
  '--format': {
    of: ['verify'],
    value: 'FORMAT',
    about: 'text, json, junit or markdown',
    fallback: 'text',
  },
  '--only': { of: ['verify'], value: 'RULES', about: 'only these rules, such as C7,S1' },
  '--list': { of: ['verify'], about: 'print the rules, and where each is written' },
  '--timeout': { of: ['verify'], value: 'SECONDS', about: 'time for one response', fallback: '10' },
  '--stories': {
    of: ['verify'],
    value: 'N',
    about: 'stories to try; 20 if omitted',
  },
  '--thorough': { of: ['verify'], about: 'try 200 stories' },
  '--allow-untried': { of: ['verify'], about: 'exit with 0 if rules were not tried' },

  '--help': { of: commandNames, about: 'print the help of the command; also -h' },
  '--version': {
    of: commandNames,
    about: 'print the version, the Node and the mode of the server; also -v',
  },
} as const satisfies Readonly<Record<string, Option>>;

/** The name of an option: its flag, or its variable if it has no flag. */
export type OptionName = keyof typeof options;

const isOption = (text: string): text is OptionName => Object.hasOwn(options, text);
const optionOf = (name: OptionName): Option => options[name];
const names = Object.keys(options).filter(isOption);
const isFlag = (name: string) => name.startsWith('--');
const shortNames: Readonly<Record<string, OptionName>> = { '-h': '--help', '-v': '--version' };

const namesOf = (command: CommandName) =>
  names.filter((name) => optionOf(name).of.includes(command));

/** The environment variables of all options. */
export const variableNames: readonly string[] = names.flatMap(
  (name) => optionOf(name).variable ?? [],
);

/** Returns the lines of the help about the options of a command. */
export function optionsHelp(command: CommandName): readonly string[] {
  return namesOf(command).flatMap((name) => optionHelp(name, command));
}

/** Returns the lines of the main help about options: the common ones, or those of every command. */
export function mainOptionsHelp(which: 'common' | 'general'): readonly string[] {
  const isCommon = (name: OptionName) => optionOf(name).isCommon === true;
  const isGeneral = (name: OptionName) => optionOf(name).of.length === commandNames.length;
  const shown = names.filter(which === 'common' ? isCommon : isGeneral);
  return shown.flatMap((name) => optionHelp(name, 'serve'));
}

function optionHelp(name: OptionName, command: CommandName): readonly string[] {
  const { variable, value, about, fallback, otherwise } = optionOf(name);
  if (otherwise?.of === command) return helpRow(`${name} ${otherwise.value}`, [otherwise.about]);

  return helpRow(value === undefined ? name : `${name} ${value}`, [
    about,
    ...(isFlag(name) && variable !== undefined ? [`[${variable}]`] : []),
    ...(fallback === undefined ? [] : [`(default ${fallback})`]),
  ]);
}

/** The settings of this process. A flag overrides the environment, which overrides the default. */
export class Settings {
  /** The words of the command line that are neither flags nor their values. */
  readonly operands: string[] = [];
  readonly #given = new Map<OptionName, readonly string[]>();

  /**
   * Parses a command line: `--flag value` or `--flag=value`, with operands anywhere between them.
   * After `--` all words are operands.
   *
   * @throws Refusal if a flag is unknown, lacks its value, or has a value that it does not take
   */
  constructor(words: string[]) {
    const command = commandNames.find((name) => words.includes(name)) ?? 'serve';
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') this.operands.push(...words.splice(0));
      else if (word.startsWith('-') && word !== '-') this.#readFlag(word, words, command);
      else this.operands.push(word);
    }
  }

  /**
   * Parses a flag, and takes its value from the next word unless it is `--flag=value`.
   *
   * @param command The command whose flags the message about an unknown flag suggests.
   */
  #readFlag(word: string, rest: string[], command: CommandName): void {
    const [, flag = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const name = isOption(flag) ? flag : shortNames[flag];
    if (name === undefined)
      refuse(
        `unknown flag ${quoteWord(flag)}` +
          suggestion(flag, [...Object.keys(shortNames), ...namesOf(command).filter(isFlag)]),
      );

    const { value: valueWord, isRepeatable } = optionOf(name);
    const before = this.#given.get(name);
    if (before !== undefined && !isRepeatable) refuse(`flag ${flag} is given twice; give it once`);
    if (valueWord === undefined && joined !== undefined)
      refuse(`flag ${flag} takes no value; write ${flag} alone`);

    const value = valueWord === undefined ? 'on' : (joined ?? rest.shift());
    // A word that begins with -- is the next flag; only --flag=value can give such a value.
    if (value === undefined || value === '' || (joined === undefined && value.startsWith('--')))
      refuse(`flag ${flag} needs a value; write ${flag} ${valueWord}`);

    this.#given.set(name, [...(before ?? []), value]);
  }

  /** @throws Refusal if a flag is not an option of the command */
  refuseOthers(command: CommandName): void {
    const other = [...this.#given.keys()].find((name) => !optionOf(name).of.includes(command));
    if (other === undefined) return;

    const [place, ...others] = [command, ...optionOf(other).of].map((name) =>
      name === 'serve' ? 'a start' : name,
    );
    refuse(`flag ${other} is not for ${place}, only for ${others.join(', ')}; leave it out`);
  }

  /**
   * Returns the setting of an option; undefined if neither a flag nor the environment sets it.
   *
   * @throws Refusal if the text has a stray character
   */
  find(name: OptionName): Setting | undefined {
    const setting = this.#find(name);
    return setting && checkedSetting(name, setting);
  }

  /** Returns the setting of an option, or its default. @throws Refusal as `find` */
  get(name: OptionName, fallback = optionOf(name).fallback ?? ''): Setting {
    return this.find(name) ?? { text: fallback, from: name };
  }

  /** Returns all values of a repeatable flag, or of its comma-separated variable. */
  list(name: OptionName): readonly Setting[] {
    const { text, from } = this.#find(name) ?? { text: '', from: name };
    const withoutBlanks = (each: string) => each.replace(/^ +| +$/g, '');
    // A key may hold quotes, but two of them around the whole list would be parts of two keys.
    const whole = withoutBlanks(text);
    if (optionOf(name).holds === 'key' && whole !== '') checkedSetting(name, { text: whole, from });

    const texts = this.#given.get(name) ?? text.split(',').map(withoutBlanks);
    return texts
      .filter((each) => each !== '')
      .map((each) => checkedSetting(name, { text: each, from }));
  }

  #find(name: OptionName): Setting | undefined {
    const [given] = this.#given.get(name) ?? [];
    if (given !== undefined) return { text: given, from: name };

    const { variable = '' } = optionOf(name);
    const text = process.env[variable];
    // An empty variable counts as unset, because an environment file cannot unset a variable.
    return text ? { text, from: variable } : undefined;
  }
}

function checkedSetting(name: OptionName, setting: Setting): Setting {
  const { holds } = optionOf(name);
  return holds === undefined ? setting : checkText(setting, holds);
}

/** The function `run` of a command's module; `operands` follow the name of the command. */
export type Run = (settings: Settings, operands: readonly string[]) => Promise<void>;

/**
 * Parses the text of a setting.
 *
 * @param hint The end of the message about a value that is not secret.
 * @throws Refusal with the rule if `parse` returns undefined
 */
export function read<T>(
  { text, from, isSecret = false }: Setting,
  parse: (text: string) => T | undefined,
  rule: string,
  hint = '',
): T {
  const value = parse(text);
  if (value !== undefined) return value;
  refuse(`${from} must be ${rule}${isSecret ? '' : `, not ${quote(text)}${hint}`}`);
}

/**
 * Parses a whole number in decimal digits, without sign, exponent or leading zeros.
 *
 * @throws Refusal
 */
export function readWholeNumber(setting: Setting, least: number, most: number): number {
  const parse = (text: string) => {
    const number = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : NaN;
    return number >= least && number <= most ? number : undefined;
  };

  return read(setting, parse, `a whole number from ${least} to ${most}`);
}

/**
 * Reads a setting that must be one of `words`.
 *
 * @throws Refusal
 */
export function readWord<Word extends string>(setting: Setting, words: readonly Word[]): Word {
  const parse = (text: string) => words.find((word) => word === text);
  return read(setting, parse, `one of ${words.join(', ')}`, suggestion(setting.text, words, ''));
}

/**
 * Parses a duration such as `90d` to milliseconds.
 *
 * @throws Refusal
 */
export function readDuration(setting: Setting): number {
  const unitMs: Readonly<Record<string, number>> = {
    s: 1_000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
  };

  const parse = (text: string) => {
    const [, count, unit = ''] = /^([1-9][0-9]{0,5})(.)$/.exec(text) ?? [];
    return unitMs[unit] === undefined ? undefined : Number(count) * unitMs[unit];
  };

  return read(setting, parse, 'a time such as 90d, 12h, 30m or 60s, of at most six digits');
}

/** The longest PEM file in bytes, about a hundred times a usual chain. */
const maxPemBytes = 2 ** 20;

/**
 * Reads the files of `--tls-cert` and `--tls-key`; returns undefined if neither is set.
 *
 * @throws Refusal
 */
export async function readTlsFiles(settings: Settings): Promise<TlsPair | undefined> {
  const certFile = settings.find('--tls-cert');
  const keyFile = settings.find('--tls-key');

  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined || keyFile === undefined)
    refuse(
      'HTTPS needs a certificate and its private key; give both --tls-cert FILE and --tls-key FILE',
    );

  const readPem = ({ text, from }: Setting) =>
    orRefuse(`${from} ${text} cannot be read`, 'name a PEM file', () =>
      readRegularFile(text, maxPemBytes),
    );
  const pair = { cert: await readPem(certFile), key: await readPem(keyFile) };

  const { checkTlsPair } = await loadTls();
  const files = `${certFile.from} ${certFile.text} and ${keyFile.from} ${keyFile.text}`;
  const hint =
    'give a certificate in PEM, its chain after it, and its private key without a passphrase';
  await orRefuse(`${files} do not serve HTTPS`, hint, () => checkTlsPair(pair));
  return pair;
}

/** Returns the value of `--node-interface`. @throws Refusal if it is not valid */
export function readNodeInterface(settings: Settings): NodeInterface {
  return readWord(settings.get('--node-interface', defaultInterface()), nodeInterfaces);
}
