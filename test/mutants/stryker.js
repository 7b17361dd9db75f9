// Stryker's instrumenter, of which only the mutants are wanted. Its types do not pass our compiler's
// checks: those that we use are in stryker.d.ts.
import { Instrumenter } from '@stryker-mutator/instrumenter';

const nothing = () => undefined;
const silent = { isDebugEnabled: () => false, debug: nothing, info: nothing, warn: nothing };

/** The words of an error are free: the contract promises its code. */
const messages = {
  shouldIgnore: (path) => {
    const isText = path.isStringLiteral() || path.isTemplateLiteral();
    const isMessage = isText && /(Error|Failure)$/.test(path.parent.callee?.name ?? '');
    return isMessage ? 'the message of an error' : undefined;
  },
};

export async function mutantsOf(files) {
  const options = { ignorers: [messages], excludedMutations: [], plugins: null };
  const { mutants } = await new Instrumenter(silent).instrument(files, options);
  return mutants.filter(({ status }) => status !== 'Ignored');
}
