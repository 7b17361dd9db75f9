/**
 * The options of the process: which there are, and their values, or a refusal that names source and
 * rule.
 */
import { loadTls } from '../http/index.js';
import type { TlsPair } from '../index.js';
import { readRegularFile } from './files.js';
import { helpRow } from './help.js';
import { orRefuse, quote, quoteWord, refuse } from './output.js';
import { checkText, type Setting, type TextKind } from './setting-text.js';

export { readPath, type Setting } from './setting-text.js';

/** An option of the process. */
interface Option {
  /** The environment variable that sets it too; only an option of a start has one. */
  readonly variable?: string;
  /** The word for its value in the help; a switch has none. */
  readonly value?: string;
  /** What it is for, in the help. */
  readonly about: string;
  /** The value where neither a flag nor the environment sets it, if the help is to name that. */
  readonly fallback?: string;
  /** Whether the flag may be given more than once. */
  readonly isRepeatable?: true;
  /** What its text is, if any text is possible; omitted if its reader knows an exact form. */
  readonly holds?: TextKind;
}

/** Every option by its flag, in the order of the help. The API keys have a variable alone. */
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
    about: 'animals of JSON Lines that an empty storage begins with',
    holds: 'path',
  },
  '--clock': {
    variable: 'PETSTORE_CLOCK',
    value: 'TIME',
    about: 'the time at which the clock starts; with memory: alone',
  },

  PETSTORE_API_KEYS: {
    variable: 'PETSTORE_API_KEYS',
    about: 'API keys, separated by commas',
    holds: 'key',
  },
  '--keys-file': {
    variable: 'PETSTORE_KEYS_FILE',
    value: 'FILE',
    about: 'made by `keys add`; data/keys.json where it exists',
    holds: 'path',
  },

  '--plugin': {
    variable: 'PETSTORE_PLUGINS',
    value: 'PLUGIN',
    about: 'see below; may be repeated; in the variable, commas',
    isRepeatable: true,
    holds: 'path',
  },
  '--cors-origin': {
    variable: 'PETSTORE_CORS_ORIGINS',
    value: 'ORIGIN',
    about: 'an origin whose pages may call; may be repeated too',
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
    about: 'close a connection that is idle for so long',
    fallback: '72',
  },

  '--base-url': {
    variable: 'PETSTORE_BASE_URL',
    value: 'URL',
    about: 'production address, for OpenAPI; links begin with its path',
    holds: 'text',
  },
  '--staging-base-url': {
    variable: 'PETSTORE_STAGING_BASE_URL',
    value: 'URL',
    about: 'staging address, for OpenAPI alone',
    holds: 'text',
  },

  '--tls-cert': {
    variable: 'PETSTORE_TLS_CERT',
    value: 'FILE',
    about: 'certificate chain in PEM; with its key it serves HTTPS',
    holds: 'path',
  },
  '--tls-key': {
    variable: 'PETSTORE_TLS_KEY',
    value: 'FILE',
    about: 'its private key in PEM',
    holds: 'path',
  },

  '--log': {
    variable: 'PETSTORE_LOG',
    value: 'LEVEL',
    about: 'silent, info, or requests, as with --dev',
    fallback: 'info',
  },
  '--log-format': {
    variable: 'PETSTORE_LOG_FORMAT',
    value: 'FORMAT',
    about: 'text, as on a terminal, or json, as elsewhere',
  },

  '--dev': { about: 'make data/dev-key and tables once; a curl line to try, and docs' },

  '--expires': {
    value: 'TIME',
    about: 'with `keys add`: how long it lives, such as 90d, 12h, 30m, 60s',
  },
  '--after': {
    value: 'LINE',
    about: 'with `import`: leave out the lines up to this one',
    fallback: '0',
  },
  '--salvage': {
    value: 'OUT',
    about: 'with `check`: save what is sound in a new file, list the rest',
    holds: 'path',
  },
  '--from': {
    value: 'STORAGE',
    about: 'with `copy`: the storage that is copied',
    holds: 'storage',
  },
  '--to': {
    value: 'STORAGE',
    about: 'with `copy`: the storage that gets what it lacks',
    holds: 'storage',
  },

  '--key': { value: 'KEY', about: 'with `verify`: an API key that the server takes', holds: 'key' },
  '--level': {
    value: 'LEVEL',
    about: 'with `verify`: specification, http, or full',
    fallback: 'full',
  },
  '--slow': { about: 'with `verify`: try what takes half a minute too' },
  '--format': {
    value: 'FORMAT',
    about: 'with `verify`: text, or json for programs',
    fallback: 'text',
  },

  '--help': { about: 'print this, as -h and `help` do' },
  '--version': { about: 'print the version, as -v does' },
} as const satisfies Readonly<Record<string, Option>>;

/** The name of an option: its flag, or its variable where it has no flag. */
export type OptionName = keyof typeof options;

const isOption = (text: string): text is OptionName => Object.hasOwn(options, text);
const optionOf = (name: OptionName): Option => options[name];
const names = Object.keys(options).filter(isOption);
const shortNames: Readonly<Record<string, OptionName>> = { '-h': '--help', '-v': '--version' };

/** The options of a start. */
export const serverOptions = names.filter(
  (name) => name === '--dev' || optionOf(name).variable !== undefined,
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

/** The settings of this process: a flag beats the environment, which beats the default. */
export class Settings {
  /** The words of the command line that are no flags and no values of flags. */
  readonly operands: string[] = [];
  readonly #given = new Map<OptionName, readonly string[]>();

  /**
   * Reads a command line: `--flag value` or `--flag=value`, and operands anywhere between them.
   * Behind `--` all are operands.
   *
   * @throws Refusal for an unknown flag, and for one whose value is missing or too much
   */
  constructor(words: string[]) {
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') this.operands.push(...words.splice(0));
      else if (word.startsWith('-') && word !== '-') this.#readFlag(word, words);
      else this.operands.push(word);
    }
  }

  /** Reads one flag, and takes its value from the rest of the words where none is joined to it. */
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

  /** @throws Refusal for a flag that is not among those that the command knows. */
  refuseOthers(known: readonly OptionName[], command: string): void {
    const other = [...this.#given.keys()].find((name) => !known.includes(name));
    if (other !== undefined) refuse(`flag ${other} is not for ${command}; leave it out`);
  }

  /**
   * Returns what set the option; undefined if neither a flag nor the environment does.
   *
   * @throws Refusal for a text with a stray character
   */
  find(name: OptionName): Setting | undefined {
    const setting = this.#find(name);
    return setting && checkedSetting(name, setting);
  }

  /** Returns what set the option, or its default. @throws Refusal as `find` */
  get(name: OptionName, fallback = optionOf(name).fallback ?? ''): Setting {
    return this.find(name) ?? { text: fallback, from: name };
  }

  /** Returns all values of a flag that was repeated, or of a variable with commas. */
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
    // An empty variable counts as unset: an environment file cannot unset one.
    return text ? { text, from: variable } : undefined;
  }
}

function checkedSetting(name: OptionName, setting: Setting): Setting {
  const { holds } = optionOf(name);
  return holds === undefined ? setting : checkText(setting, holds);
}

/** What the module of a command exports as `run`; operands are what follows the command's name. */
export type Run = (settings: Settings, operands: readonly string[]) => Promise<void>;

/**
 * Returns the end of a message about an unknown word. It names the known words that share the
 * longest beginning with it.
 */
export function suggestion(word: string, known: readonly string[]): string {
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
 * Returns what `parse` makes of the text of a setting.
 *
 * @throws Refusal with the rule, if `parse` returns undefined
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
 * Returns the whole number of a setting, which consists of decimal digits alone: no sign, exponent
 * or leading zero.
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

/** A date, or a time with its zone, in milliseconds since the epoch; NaN for any other text. */
export function timeOf(text: string): number {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  const day = text.slice(0, 10);

  // `Date` reads 31 February as 3 March.
  const isOfCalendar = form.test(text) && new Date(day).getUTCDate() === Number(day.slice(8));
  return isOfCalendar ? Date.parse(text) : NaN;
}

/**
 * A duration such as `90d`, in milliseconds.
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

/** The longest file of a certificate or a key, in bytes. A chain is a hundredth of that. */
const maxPemBytes = 2 ** 20;

/**
 * The certificate and the key of `--tls-cert` and `--tls-key`; undefined where neither is named.
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
    orRefuse(`${from} cannot be read`, 'name a PEM file', () => readRegularFile(text, maxPemBytes));
  const pair = { cert: await readPem(certFile), key: await readPem(keyFile) };

  const { checkTlsPair } = await loadTls();
  const files = `${certFile.from} ${certFile.text} and ${keyFile.from} ${keyFile.text}`;
  const hint =
    'give a certificate in PEM, its chain after it, and its private key without a passphrase';
  await orRefuse(`${files} do not serve HTTPS`, hint, () => checkTlsPair(pair));
  return pair;
}
