/** Owns who wins: a flag beats the environment, which beats the default. Knows no value's rule. */
import { options, type Option, type OptionName, type OptionNameWithDefault } from './options.js';

/** A value as text. */
export interface Setting {
  readonly text: string;
  /** What it came from, for the message where it is bad: `--port`, `PORT`. */
  readonly from: string;
}

/** The options as they were set. */
export class Settings {
  readonly #given: ReadonlyMap<OptionName, readonly string[]>;
  readonly #environment: Readonly<Record<string, string | undefined>>;

  constructor(given: ReadonlyMap<OptionName, readonly string[]>, environment: Readonly<Record<string, string | undefined>>) {
    this.#given = given;
    this.#environment = environment;
  }

  /** Whether a switch is on. */
  has(name: OptionName): boolean {
    return this.#given.has(name);
  }

  /** What an option was set to; undefined where neither a flag nor the environment did. */
  find(name: OptionName): Setting | undefined {
    const { flag, env }: Option = options[name];
    const given = this.#given.get(name)?.[0];
    if (flag !== undefined && given !== undefined) return { text: given, from: flag };
    const text = env === undefined ? undefined : this.#environment[env];
    // A variable set to nothing is how a shell or a container's file says "not set".
    return env === undefined || text === undefined || text === '' ? undefined : { text, from: env };
  }

  /** What an option with a default is. */
  get(name: OptionNameWithDefault): Setting {
    return this.find(name) ?? { text: options[name].default, from: options[name].flag };
  }

  /** All values of a list; in the environment commas stand between them, and empty ones count as none. */
  list(name: OptionName): readonly Setting[] {
    const found = this.find(name);
    if (found === undefined) return [];
    const given = this.#given.get(name);
    const texts = given ?? found.text.split(',').map((text) => text.trim());
    return texts.filter((text) => text !== '').map((text) => ({ text, from: found.from }));
  }
}
