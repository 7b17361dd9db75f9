/** Runs test files, and reads their results. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callersEnvironment } from './environment.js';

/** The results of test files. */
export interface TestResults {
  /** The number of tests that passed. */
  readonly passed: number;
  /** The names of the tests that failed, with those of their suites. */
  readonly failed: readonly string[];
}

/**
 * Runs test files on the Node of this process, eight at a time. Prints their progress.
 * @param environment Variables in addition to those of the caller.
 */
export async function runTests(
  files: readonly string[],
  environment: Readonly<NodeJS.ProcessEnv> = {},
): Promise<TestResults> {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-'));
  const results = join(folder, 'results.tap');
  try {
    const args = [
      ...['--test', '--test-concurrency=8', '--test-timeout=480000'],
      ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
      ...['--test-reporter=tap', `--test-reporter-destination=${results}`],
    ];
    const env = { ...callersEnvironment, ...environment };
    const child = spawn(process.execPath, [...args, ...files], { stdio: 'inherit', env });
    await once(child, 'exit');

    const text = readFileSync(results, 'utf8');
    const failed = [...text.matchAll(/^ *not ok \d+ - (.*)$/gm)].map(([, name = '']) => name);
    return { passed: Number(/^# pass (\d+)$/m.exec(text)?.[1] ?? 0), failed };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
