/**
 * Lets any warning of Node fail the test that runs, because a warning is a fault that no response
 * shows, such as one listener per request on a socket. Experimental features are allowed.
 */

/** Matches a warning that Node writes to standard error, except those of experimental features. */
const printedWarning = /^\(node:[0-9]+\) (?!ExperimentalWarning).*$/m;

process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') throw warning;
});

/** Returns the first warning in the standard error of a process; undefined if it has none. */
export function warningIn(stderr: string): string | undefined {
  return printedWarning.exec(stderr)?.[0];
}
