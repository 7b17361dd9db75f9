/** The options of the process: their table, their values, and refusals that name their source. */
import { defaultInterface, loadTls, nodeInterfaces, type NodeInterface } from '../http/index.js';
import type { TlsPair } from '../index.js';
import { readRegularFile } from './files.js';
import { helpRow } from './help.js';
import { orRefuse, quote, quoteWord, refuse } from './output.js';
import { checkText, type Setting, type TextKind } from './setting-text.js';

export { readPath, type Setting } from './setting-text.js';

/** An option of the process. */
interface Option {
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
}

/** Every option by its flag, in the order of the help. The API keys have only a variable. */
const options = {
  '--host': {
    variable: 'HOST',
    value: 'ADDRESS',
    about: 'address to listen on',
    fallback: '127.0.0.1',
  },
  '--port': {
    variable: 'PORT',
    value: 'PORT',
    about: 'port to listen on; 0 takes a free one',
    fallback: '3000',
  },

  '--storage': {
    variable: 'PETSTORE_STORAGE',
    value: 'STORAGE',
    about: 'file:PATH, memory:, postgres://…',
    fallback: 'file:data/pets.jsonl',
    holds: 'storage',
  },
  '--seed': {
    variable: 'PETSTORE_SEED',
    value: 'FILE',
    about: 'JSON Lines with the pets of an empty storage',
    holds: 'path',
  },
  '--clock': {
    variable: 'PETSTORE_CLOCK',
    value: 'TIME',
    about: 'time at which the clock starts; only with memory:',
  },

  PETSTORE_API_KEYS: {
    variable: 'PETSTORE_API_KEYS',
    about: 'API keys, separated by commas',
    holds: 'key',
  },
  '--keys-file': {
    variable: 'PETSTORE_KEYS_FILE',
    value: 'FILE',
    about: 'made by `keys add`; data/keys.json if it exists',
    holds: 'path',
  },

  '--plugin': {
    variable: 'PETSTORE_PLUGINS',
    value: 'PLUGIN',
    about: 'plugin to load, repeatable; see below',
    isRepeatable: true,
    holds: 'plugin',
  },
  '--cors-origin': {
    variable: 'PETSTORE_CORS_ORIGINS',
    value: 'ORIGIN',
    about: 'origin whose pages may call the API, repeatable',
    isRepeatable: true,
    holds: 'text',
  },

  '--max-body-bytes': {
    variable: 'PETSTORE_MAX_BODY_BYTES',
    value: 'BYTES',
    about: 'longest request body',
    fallback: '65536',
  },
  '--drain': {
    variable: 'PETSTORE_DRAIN',
    value: 'SECONDS',
    about: 'keep serving for SECONDS after SIGTERM, with /readyz at 503',
    fallback: '0',
  },
  '--keep-alive': {
    variable: 'PETSTORE_KEEP_ALIVE',
    value: 'SECONDS',
    about: 'close a connection after it was idle for SECONDS',
    fallback: '72',
  },

  '--node-interface': {
    variable: 'PETSTORE_NODE_INTERFACE',
    value: 'NAME',
    about: "auto, check (this Node first), or documented (only Node's documented interface)",
    fallback: 'auto',
  },

  '--base-url': {
    variable: 'PETSTORE_BASE_URL',
    value: 'URL',
    about: 'public base URL; its path prefixes links',
    holds: 'text',
  },
  '--staging-base-url': {
    variable: 'PETSTORE_STAGING_BASE_URL',
    value: 'URL',
    about: 'public base URL in staging, for OpenAPI',
    holds: 'text',
  },

  '--tls-cert': {
    variable: 'PETSTORE_TLS_CERT',
    value: 'FILE',
    about: 'certificate chain in PEM, to serve HTTPS',
    holds: 'path',
  },
  '--tls-key': {
    variable: 'PETSTORE_TLS_KEY',
    value: 'FILE',
    about: 'private key of the certificate in PEM',
    holds: 'path',
  },

  '--log': {
    variable: 'PETSTORE_LOG',
    value: 'LEVEL',
    about: 'silent, info or requests',
    fallback: 'info',
  },
  '--log-format': {
    variable: 'PETSTORE_LOG_FORMAT',
    value: 'FORMAT',
    about: 'text (default on a terminal) or json',
  },

  '--dev': { about: 'try it out: make data/dev-key, print a curl command, serve /docs' },

  '--expires': {
    value: 'TIME',
    about: 'with `keys add`: lifetime, such as 90d, 12h, 30m, 60s',
  },
  '--after': {
    value: 'LINE',
    about: 'with `import`: skip the lines up to this one',
    fallback: '0',
  },
  '--salvage': {
    value: 'OUT',
    about: 'with `check`: save what is sound to a new file',
    holds: 'path',
  },
  '--from': {
    variable: 'PETSTORE_FROM',
    value: 'STORAGE',
    about: 'with `copy`: storage to copy from',
    holds: 'storage',
  },
  '--to': {
    variable: 'PETSTORE_TO',
    value: 'STORAGE',
    about: 'with `copy`: storage to copy to',
    holds: 'storage',
  },

  '--print': { about: 'with `migrate`: print the SQL for a database administrator' },

  '--key': {
    variable: 'PETSTORE_KEY',
    value: 'KEY',
    about: 'with `verify`: API key of the server; `ps` shows a flag',
    holds: 'key',
  },
  '--key-file': {
    value: 'FILE',
    about: 'with `verify`: file with the API key',
    holds: 'path',
  },
  '--category': {
    value: 'N',
    about: 'with `verify`: category of the pets that are added',
    fallback: '5',
  },
  '--level': {
    value: 'LEVEL',
    about: 'with `verify`: specification, http or full',
    fallback: 'full',
  },
  '--slow': { about: 'with `verify`: also try the deadlines (half a minute)' },
  '--format': {
    value: 'FORMAT',
    about: 'with `verify`: text, json, junit or markdown',
    fallback: 'text',
  },
  '--only': { value: 'RULES', about: 'with `verify`: only these rules, such as C7,S1' },
  '--list': { about: 'with `verify`: print the rules, and where each is written' },
  '--timeout': {
    value: 'SECONDS',
    about: 'with `verify`: time for one response',
    fallback: '10',
  },
  '--allow-untried': { about: 'with `verify`: exit with 0 if rules were not tried' },

  '--help': { about: 'print this help; also -h' },
  '--version': { about: 'print the version; also -v' },
} as const satisfies Readonly<Record<string, Option>>;

/** The name of an option: its flag, or its variable if it has no flag. */
export type OptionName = keyof typeof options;

const isOption = (text: string): text is OptionName => Object.hasOwn(options, text);
const optionOf = (name: OptionName): Option => options[name];
const names = Object.keys(options).filter(isOption);
const shortNames: Readonly<Record<string, OptionName>> = { '-h': '--help', '-v': '--version' };

/** The options of commands that have a variable too. */
const commandOptions: readonly OptionName[] = ['--from', '--to', '--key'];

/** The options of a server start. */
export const serverOptions = names.filter(
  (name) =>
    name === '--dev' || (optionOf(name).variable !== undefined && !commandOptions.includes(name)),
);

/** Returns the lines of the help about options, all of them by default. */
export function optionsHelp(some: readonly OptionName[] = names): readonly string[] {
  return some.flatMap((name) => {
    const { variable, value, about, fallback } = optionOf(name);
    const isFlag = name.startsWith('--');
    return helpRow(isFlag && value !== undefined ? `${name} ${value}` : name, [
      about,
      ...(isFlag && variable !== undefined ? [`[${variable}]`] : []),
      ...(fallback === undefined ? [] : [`(default ${fallback})`]),
    ]);
  });
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
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') this.operands.push(...words.splice(0));
      else if (word.startsWith('-') && word !== '-') this.#readFlag(word, words);
      else this.operands.push(word);
    }
  }

  /** Parses a flag, and takes its value from the next word unless it is `--flag=value`. */
  #readFlag(word: string, rest: string[]): void {
    const [, flag = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const name = isOption(flag) ? flag : shortNames[flag];
    if (name === undefined) refuse(`unknown flag ${quoteWord(flag)}${suggestion(flag, names)}`);

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
  refuseOthers(known: readonly OptionName[], command: string): void {
    const other = [...this.#given.keys()].find((name) => !known.includes(name));
    if (other !== undefined) refuse(`flag ${other} is not for ${command}; leave it out`);
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
 * Returns the hint of a message about an unknown word: the known words with the same letters, else
 * those with the longest prefix.
 */
export function suggestion(word: string, known: readonly string[]): string {
  const letters = (text: string) => [...text].sort().join('');
  const swapped = known.filter((other) => letters(other) === letters(word));
  if (swapped.length > 0) return `; did you mean ${swapped.join(' or ')}?`;

  const sharedLength = (other: string) => {
    let length = 0;
    while (length < word.length && word[length] === other[length]) length++;
    return length;
  };

  const dashes = /^-*/.exec(word)?.[0].length ?? 0;
  const longest = Math.max(...known.map(sharedLength));
  if (longest <= dashes) return '; --help lists all';
  return `; did you mean ${known.filter((other) => sharedLength(other) === longest).join(' or ')}?`;
}

/**
 * Parses the text of a setting.
 *
 * @throws Refusal with the rule if `parse` returns undefined
 */
export function read<T>(
  { text, from, isSecret = false }: Setting,
  parse: (text: string) => T | undefined,
  rule: string,
): T {
  const value = parse(text);
  if (value !== undefined) return value;
  refuse(`${from} must be ${rule}${isSecret ? '' : `, not ${quote(text)}`}`);
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
  return read(setting, (text) => words.find((word) => word === text), `one of ${words.join(', ')}`);
}

/** Parses a date, or a time with its zone, to milliseconds since the epoch; NaN if not valid. */
export function timeOf(text: string): number {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  const day = text.slice(0, 10);

  // `Date` takes 31 February for 3 March.
  const isOfCalendar = form.test(text) && new Date(day).getUTCDate() === Number(day.slice(8));
  return isOfCalendar ? Date.parse(text) : NaN;
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
