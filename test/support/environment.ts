/**
 * Controls the environment of the tests. Importing this module removes every variable from
 * `process.env` that could change the outcome of a test, so that tests and the processes that they
 * start behave alike on every machine. Only modules of this folder read `process.env`.
 */

/** The variables that stay: paths, and those of the test runner and of the tests themselves. */
const kept = /^(?:PATH|TMPDIR|NODE_V8_COVERAGE|NODE_TEST_CONTEXT|PETSTORE_TEST_[A-Z_]+)$/;

/** The original environment. Only tools that people start, such as the benchmark, may use it. */
export const callersEnvironment: Readonly<NodeJS.ProcessEnv> = Object.freeze({ ...process.env });

for (const name of Object.keys(process.env)) if (!kept.test(name)) delete process.env[name];

/**
 * Returns the environment of a new process: the caller's PATH and TMPDIR, the folder for its
 * coverage if that is measured, and `own`.
 */
export function childEnvironment(own: Readonly<NodeJS.ProcessEnv> = {}): NodeJS.ProcessEnv {
  const { PATH = '', TMPDIR, NODE_V8_COVERAGE } = process.env;
  return {
    PATH,
    ...(TMPDIR && { TMPDIR }),
    ...(NODE_V8_COVERAGE && { NODE_V8_COVERAGE }),
    ...own,
  };
}

/** Returns the value of `PETSTORE_TEST_<name>`; undefined if it is absent or empty. */
export function testSetting(
  name: 'CYCLES' | 'FAULT' | 'NO_SKIP' | 'POSTGRES_PROGRAMS' | 'POSTGRES_URL',
): string | undefined {
  return process.env[`PETSTORE_TEST_${name}`] || undefined;
}

/** True if a test that cannot run on this machine must fail instead of being skipped. */
export const isSkipForbidden = testSetting('NO_SKIP') !== undefined;
