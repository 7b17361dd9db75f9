// Starts Debian's Chromium, which can reach only this machine, once for all tests of a process.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, type TestContext } from 'node:test';
import { chromium, type Browser, type Page } from 'playwright-core';
import { atEnd } from '../support/at-end.js';
import { isSkipForbidden } from '../support/environment.js';

/** Debian's programs of Chromium. The first takes half the processor time. */
const programs = ['chromium-headless-shell', 'chromium'] as const;
export const executablePath = programs
  .map((program) => `/usr/bin/${program}`)
  .find((path) => existsSync(path));
/** A message on how to install Chromium; undefined if it is installed. */
export const missing =
  executablePath === undefined
    ? `there is no Chromium in /usr/bin; get it with: apt-get install --no-install-recommends ${programs[0]}`
    : undefined;

/**
 * The options of a test in a browser. Without a browser the test is skipped, or fails with
 * PETSTORE_TEST_NO_SKIP=1. The timeout ends a browser that hangs.
 */
export const inBrowser = {
  timeout: 200_000,
  skip: isSkipForbidden ? false : (missing ?? false),
};

/** A page in a new profile, with its requests and errors. The end of the test closes it. */
export interface Visit {
  readonly page: Page;
  /** The URLs of all requests of the page. */
  readonly requests: readonly string[];
  /** The errors and warnings in the console, such as violations of the Content-Security-Policy. */
  readonly complaints: readonly string[];
}

/** Shared by all tests of the process, because starting it takes longer than most tests. */
let browser: Promise<Browser> | undefined;
after(async () => (await browser)?.close());

/** Opens a page in a new profile, without the cache, storage and cookies of other tests. */
export async function openPage(t: TestContext): Promise<Visit> {
  assert.ok(executablePath !== undefined, missing);
  browser ??= chromium.launch({
    executablePath,
    // The sandbox does not work for root, as in a container.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  const profile = await (await browser).newContext();
  atEnd(t, () => profile.close());
  const page = await profile.newPage();
  // On a busy machine, a page of 1 s has taken 15 s to load.
  page.setDefaultTimeout(60_000);
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  return { page, requests, complaints };
}

/** Returns what axe finds on a page, each as its rule and the first element. */
export async function violationsOf(page: Page): Promise<unknown> {
  // Once in a document.
  if (await page.evaluate("typeof axe === 'undefined'"))
    await page.evaluate(
      readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'),
    );
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))`);
}
