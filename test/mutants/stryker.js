// Stryker's instrumenter, of which only the mutants are wanted. Its types do not pass our compiler's
// checks: those that we use are in stryker.d.ts.
import { Instrumenter } from '@stryker-mutator/instrumenter';

const nothing = () => undefined;
const silent = { isDebugEnabled: () => false, debug: nothing, info: nothing, warn: nothing };

/**
 * Several words that are no SQL and no header: the message of an error, a line of the log, what the
 * OpenAPI document says to people. The contract promises codes, and leaves such words free.
 */
const isProse = (text) => /[a-z][,;:.]? [a-z(`]/.test(text) && !noProse.test(text);
const noProse = /\b(?:AND|AS|BY|FROM|IN|INTO|KEY|NOT|ON|OR|SELECT|SET|TABLE|VALUES|WHERE)\b|[=\r]/;

/** Words that a program compares are no prose. */
const isCompared = ({ type, operator }) => type === 'BinaryExpression' && operator !== '+';

const prose = {
  shouldIgnore: ({ node, parent }) => {
    const parts =
      node.type === 'StringLiteral' ? [node.value] : node.quasis?.map(({ value }) => value.cooked);
    return parts?.some(isProse) && !isCompared(parent) ? 'prose' : undefined;
  },
};

export async function mutantsOf(files) {
  const options = { ignorers: [prose], excludedMutations: [], plugins: null };
  const { mutants } = await new Instrumenter(silent).instrument(files, options);
  return mutants.filter(({ status }) => status !== 'Ignored');
}
