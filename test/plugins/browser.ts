/**
 * Owns a real browser for the tests of a process: Debian's Chromium, which can reach this machine
 * alone.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, type TestContext } from 'node:test';
import { chromium, type Browser, type Page } from 'playwright-core';
import { atEnd } from '../support/at-end.js';
import { isSkipForbidden } from '../support/environment.js';

/** Debian's Chromium: without windows, which takes half the processor time, else the whole one. */
const programs = ['chromium-headless-shell', 'chromium'] as const;
export const executablePath = programs
  .map((program) => `/usr/bin/${program}`)
  .find((path) => existsSync(path));
/** What to say where there is none. */
export const missing =
  executablePath === undefined
    ? `there is no Chromium in /usr/bin; get it with: apt-get install --no-install-recommends ${programs[0]}`
    : undefined;

/**
 * A test's options: without a browser it is skipped, and says how to get one; where
 * PETSTORE_TEST_NO_SKIP is 1 it fails. A browser that hangs may not hold up all the rest.
 */
export const inBrowser = {
  timeout: 200_000,
  skip: isSkipForbidden ? false : (missing ?? false),
};

/**
 * A page of a profile of its own that ends with the test, and all that it asked for and complained
 * about.
 */
export interface Visit {
  readonly page: Page;
  /** Every address that it asked for. */
  readonly requests: readonly string[];
  /** Every error in its console and every violation of a Content-Security-Policy. */
  readonly complaints: readonly string[];
}

/** One for all tests of the process, as its start costs more than most of them do. */
let browser: Promise<Browser> | undefined;
after(async () => (await browser)?.close());

/**
 * Opens a page in a profile without any history: no cache, no storage, no cookie of another test.
 */
export async function openPage(t: TestContext): Promise<Visit> {
  assert.ok(executablePath !== undefined, missing);
  browser ??= chromium.launch({
    executablePath,
    // Its sandbox needs a user of its own, which a container's root is not.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  const profile = await (await browser).newContext();
  atEnd(t, () => profile.close());
  const page = await profile.newPage();
  // A busy machine has taken 15 s to load a page that takes one.
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
