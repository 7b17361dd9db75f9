/** Warns of environment variables that look like the variable of an option but are not. */
import { printNotice, program, quoteWord } from './output.js';
import { variableNames } from './option-table.js';
import { similarWords } from './suggestion.js';

/** A variable that src/http reads, in processes of others too (C80). */
const selfCheck = 'PETSTORE_SELF_CHECK';

/**
 * The variables that Kubernetes sets for a service of this name in every container, such as
 * `PETSTORE_SERVICE_HOST`.
 */
const ofService = /_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?$/;
const serviceUrl = /^(?:tcp|udp|sctp):\/\//;

/** The most variables that are named. */
const maxWarnings = 10;

/**
 * Prints a line for each unknown `PETSTORE_…` variable with a known one that it may stand for. The
 * value is not printed, because it may be an API key.
 */
export function warnOfUnknownVariables(environment: Readonly<NodeJS.ProcessEnv>): void {
  const unknown = Object.entries(environment).filter(
    ([name, value = '']) =>
      /^PETSTORE_/i.test(name) &&
      value !== '' &&
      ![...variableNames, selfCheck].includes(name) &&
      !ofService.test(name) &&
      !serviceUrl.test(value),
  );

  for (const [name] of unknown.slice(0, maxWarnings)) {
    // Compared without the prefix, which HOST and PORT lack: `PETSTORE_PORT` stands for PORT.
    const similar = similarWords(withoutPrefix(name), variableNames.map(withoutPrefix));
    const hint = variableNames.filter((other) => similar.includes(withoutPrefix(other)));
    const words = hint.length === 0 ? otherwise : `did you mean ${hint.join(' or ')}?`;
    printNotice(`warning: the variable ${quoteWord(name)} is unknown, so it is ignored; ${words}`);
  }
}

const otherwise = `\`${program} help COMMAND\` lists the variables of a command`;

function withoutPrefix(name: string): string {
  return name.replace(/^PETSTORE_/i, '');
}
