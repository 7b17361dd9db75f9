/** Owns splitting the command line into operands and flags. Knows which flags there are, but no value's rule. */
import { optionList, type OptionName } from './options.js';
import { Refusal } from './refusal.js';
import { suggestion } from './suggestion.js';

/** What stood on the command line. */
export interface CommandLine {
  readonly operands: readonly string[];
  /** Each flag with its values as they came; none for a switch. */
  readonly given: ReadonlyMap<OptionName, readonly string[]>;
}

const flags = new Map(optionList.flatMap(([name, option]) => (option.flag === undefined ? [] : [[option.flag, { name, ...option }] as const])));

/**
 * Reads `--flag value`, `--flag=value`, and operands anywhere between; behind `--` all are operands.
 * @throws Refusal for an unknown or doubled flag, a missing value, a value where none belongs.
 */
export function readCommandLine(args: readonly string[]): CommandLine {
  const operands: string[] = [];
  const given = new Map<OptionName, string[]>();
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? '';
    if (arg === '--') {
      operands.push(...args.slice(at + 1));
      break;
    }
    if (!arg.startsWith('-')) {
      operands.push(arg);
      continue;
    }
    const equals = arg.indexOf('=');
    const text = equals < 0 ? arg : arg.slice(0, equals);
    const flag = flags.get(text);
    if (flag === undefined) throw new Refusal(`unknown flag ${text}${suggestion(text, [...flags.keys()])}`);
    const values = given.get(flag.name) ?? [];
    if (given.has(flag.name) && flag.isList !== true) throw new Refusal(`flag ${text} is given twice; give it once`);
    given.set(flag.name, values);
    if (flag.value === undefined) {
      if (equals >= 0) throw new Refusal(`flag ${text} takes no value; write ${text} alone`);
      continue;
    }
    const value = equals < 0 ? args[++at] : arg.slice(equals + 1);
    // What looks like a flag was not meant as a value; who means it writes --flag=value.
    if (value === undefined || value === '' || (equals < 0 && value.startsWith('--'))) {
      throw new Refusal(`flag ${text} needs a value; write ${text} ${flag.value}`);
    }
    values.push(value);
  }
  return { operands, given };
}
