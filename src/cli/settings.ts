/** Parses the command line and finds the settings: flags, variables and defaults. */
import { quoteWord, refuse } from './output.js';
import {
  commandNames,
  isFlag,
  isOption,
  optionOf,
  optionsOf,
  shortNames,
  type CommandName,
  type OptionName,
} from './option-table.js';
import { checkText, type Setting } from './setting-text.js';
import { suggestion } from './suggestion.js';

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
   * @param command The command whose flags and values a message suggests.
   */
  #readFlag(word: string, rest: string[], command: CommandName): void {
    const [, flag = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const name = isOption(flag) ? flag : shortNames[flag];
    if (name === undefined)
      refuse(
        `unknown flag ${quoteWord(flag)}` +
          suggestion(flag, [...Object.keys(shortNames), ...optionsOf(command).filter(isFlag)]),
      );

    const { value: valueWord, isRepeatable } = optionOf(name, command);
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
    return setting && this.#checked(name, setting);
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
    if (optionOf(name).holds === 'key' && whole !== '') this.#checked(name, { text: whole, from });

    const texts = this.#given.get(name) ?? text.split(',').map(withoutBlanks);
    return texts
      .filter((each) => each !== '')
      .map((each) => this.#checked(name, { text: each, from }));
  }

  #find(name: OptionName): Setting | undefined {
    const [given] = this.#given.get(name) ?? [];
    if (given !== undefined) return { text: given, from: name };

    const { variable = '' } = optionOf(name, this.#command);
    const text = process.env[variable];
    // An empty variable counts as unset, because an environment file cannot unset a variable.
    return text ? { text, from: variable } : undefined;
  }

  /** The command that the first operand names, or that of a command line without a command. */
  get #command(): CommandName {
    return commandNames.find((name) => name === this.operands[0]) ?? 'serve';
  }

  #checked(name: OptionName, setting: Setting): Setting {
    const { holds } = optionOf(name, this.#command);
    return holds === undefined ? setting : checkText(setting, holds);
  }
}

/** The function `run` of a command's module; `operands` follow the name of the command. */
export type Run = (settings: Settings, operands: readonly string[]) => Promise<void>;
