// Makes mutants by Stryker's instrumenter. Its own types do not pass the checks of our compiler, so
// stryker.d.ts has the types that are used.
import { Instrumenter } from '@stryker-mutator/instrumenter';

const nothing = () => undefined;
const silent = { isDebugEnabled: () => false, debug: nothing, info: nothing, warn: nothing };

/**
 * True for several words that are neither SQL nor a header, such as an error message, a log line or
 * a text of the OpenAPI document. The contract promises codes, but not these words.
 */
const isProse = (text) => /[a-z][,;:.]? [a-z(`]/.test(text) && !noProse.test(text);
const noProse = /\b(?:AND|AS|BY|FROM|IN|INTO|KEY|NOT|ON|OR|SELECT|SET|TABLE|VALUES|WHERE)\b|[=\r]/;

/** True if the program compares the text, so that it is not prose. */
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
