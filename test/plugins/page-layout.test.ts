// Tests what the page at `/` looks like in a real browser: on a phone, with large text, in the dark
// and in forced colours, by axe, and by its size.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import {
  memoryStorage,
  parseDraft,
  parseJson,
  toByteString,
  type PetDraft,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { key, start } from '../support/fixture.js';
import { root } from '../support/process.js';
import { inBrowser, openPage, violationsOf } from './browser.js';

const far = 2n ** 63n - 1n;
/** Names that break a layout that is not made for them. */
const longPets: readonly PetDraft[] = [
  { name: 'n'.repeat(400), categoryId: -far, status: 'available' },
  { name: 'Many words '.repeat(40), categoryId: far, status: 'pending' },
  { name: '猫'.repeat(100), categoryId: 1n, status: 'sold' },
  { name: 'one\nline', categoryId: 0n },
];

const seed = readFileSync(join(root, 'data/animals.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => parseDraft(parseJson(toByteString(line))));

/** Opens the page with the key, and the place in the list. */
async function listOf(t: TestContext, pets: readonly PetDraft[], hash: string) {
  const running = await start(t, { plugins: [docsPlugin()], storage: memoryStorage({ pets }) });
  const visit = await openPage(t);
  await visit.page.goto(`http://127.0.0.1:${running.port}/${hash}`);
  await visit.page.getByLabel('Your key').fill(key);
  await visit.page.getByRole('button', { name: 'Show the pets' }).click();
  await visit.page.locator('#rows tr').first().waitFor();
  return { ...visit, ...running };
}

/** Returns what does not fit the width of the page: elements, and texts of cells that are cut off. */
const misfits = (page: Page): Promise<unknown> =>
  page.evaluate(`(() => {
    const width = document.documentElement.clientWidth;
    const wrong = [];
    if (document.documentElement.scrollWidth > width) wrong.push('the page');
    for (const box of document.querySelectorAll('body *')) {
      const { left, right, height } = box.getBoundingClientRect();
      if (height === 0 || box.closest('pre, thead, #pages span')) continue;
      if (left < 0 || right > width) wrong.push(box.outerHTML.slice(0, 80));
      const isClamped = box.className === 'clamped';
      const isCut = getComputedStyle(box).overflow !== 'visible' && box.scrollWidth > box.clientWidth;
      if (isCut && !isClamped) wrong.push('cut: ' + box.outerHTML.slice(0, 80));
    }
    return wrong;
  })()`);

/** Returns the texts of the cells that have a box, one row a text. */
const shownTexts = (page: Page): Promise<unknown> =>
  page.evaluate(`[...document.querySelectorAll('#rows tr')].map((row) =>
    [...row.cells].filter((cell) => cell.getBoundingClientRect().height > 0)
      .map((cell) => cell.firstChild?.textContent ?? '').filter(Boolean).join(' '))`);

test(
  'on a phone, every member of every pet is visible without scrolling sideways',
  inBrowser,
  async (t) => {
    const { page } = await listOf(t, [...longPets, ...seed], '#limit=100');
    const all = [...longPets, ...seed];
    for (const width of [320, 375, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await misfits(page), [], String(width));
      assert.deepEqual(
        await shownTexts(page),
        all
          .slice(0, 100)
          .map(({ name, categoryId, status }, index) =>
            [index + 1, name, categoryId, status].filter((each) => each !== undefined).join(' '),
          ),
        String(width),
      );
    }
    await page.setViewportSize({ width: 320, height: 800 });
    for (let count = 200; ; count += 100) {
      await page.getByRole('link', { name: 'Next page' }).click();
      await page.locator('#summary', { hasText: `ids ${count - 99} to` }).waitFor();
      assert.deepEqual(await misfits(page), [], `from ${count - 99}`);
      if (await page.locator('#next').isHidden()) break;
    }
  },
);

test('a name stays in its row, whatever its characters are', inBrowser, async (t) => {
  const names = [
    '\u202eright to left',
    'שלום',
    `Z${'\u0301'.repeat(80)}algo`,
    '',
    ' \u200b',
    'a  b\tc\nd\u0000',
  ];
  const pets = names.map((name) => ({ name, categoryId: 1n }));
  const { page } = await listOf(t, pets, '');
  const spans = page.locator('#rows td.text > span');
  assert.deepEqual(await spans.allTextContents(), names);
  for (const width of [320, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    assert.deepEqual(await misfits(page), [], String(width));
    const looks = await page.evaluate(`[...document.querySelectorAll('#rows td.text > span')].map(
      (span) => {
        const { overflow, textAlign } = getComputedStyle(span);
        const { content } = getComputedStyle(span, '::before');
        const { height } = span.getBoundingClientRect();
        return [overflow, textAlign, content, Math.round(height / 24)].join(' ');
      })`);
    const [name, blank] = ['clip left none', 'clip left "(blank)"'];
    assert.deepEqual(looks, [
      `${name} 1`,
      `${name} 1`,
      `${name} 1`,
      `${blank} 1`,
      `${blank} 1`,
      `${name} 2`,
    ]);
  }
});

test('a name is clamped after three lines, and a button shows all of it', inBrowser, async (t) => {
  const { page } = await listOf(t, longPets, '');
  const lines = async (): Promise<number> =>
    Number(
      await page.evaluate(`(() => {
      const [span] = document.querySelectorAll('#rows td.text > span');
      return Math.round(span.getBoundingClientRect().height / parseFloat(getComputedStyle(span).lineHeight));
    })()`),
    );
  for (const width of [320, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await page.locator('#rows td.text > .clamped').first().waitFor();
    assert.equal(await lines(), 3, String(width));
    await page.getByRole('button', { name: 'Show all' }).first().click();
    assert.ok((await lines()) > 3, String(width));
    assert.deepEqual(await misfits(page), [], String(width));
    await page.getByRole('button', { name: 'Show less' }).click();
  }
  assert.equal(await page.locator('#rows tr').nth(3).getByRole('button').count(), 0);
});

test(
  'with text at 200 %, nothing is cut off, and targets for fingers have 44 px',
  inBrowser,
  async (t) => {
    const { page } = await listOf(t, longPets, '#limit=2&after=1');
    await page.setViewportSize({ width: 320, height: 800 });
    await page.getByLabel('Name').fill('Rex');
    await page.getByLabel('Category').fill('1');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.locator('#added a').waitFor();
    for (const summary of await page.locator('summary').all()) await summary.click();
    const small = `[...document.querySelectorAll('a, button, input, select, summary')].filter((box) => {
    const { width, height } = box.getBoundingClientRect();
    return height > 0 && (width < 44 || height < 44);
  }).map((box) => box.outerHTML.slice(0, 80))`;
    assert.deepEqual(await page.evaluate(small), []);
    for (const width of [320, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      assert.deepEqual(await misfits(page), [], String(width));
    }
  },
);

test('axe finds nothing in light, dark and forced colours, at any width', inBrowser, async (t) => {
  const { page, port } = await listOf(t, longPets, '#limit=3&after=1');
  const looks = [
    { colorScheme: 'light', forcedColors: 'none' },
    { colorScheme: 'dark', forcedColors: 'none' },
    { colorScheme: 'light', forcedColors: 'active' },
    { colorScheme: 'dark', forcedColors: 'active' },
  ] as const;
  const tryAll = async (view: string): Promise<void> => {
    for (const look of looks)
      for (const width of [320, 375, 768, 1280]) {
        await page.emulateMedia(look);
        await page.setViewportSize({ width, height: 800 });
        const where = `${view} ${width} ${JSON.stringify(look)}`;
        assert.deepEqual(await violationsOf(page), [], where);
        assert.deepEqual(await misfits(page), [], where);
      }
  };
  await page.getByLabel('Name').fill('Rex');
  await page.getByLabel('Category').fill('x');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('#add-error', { hasText: 'must be' }).waitFor();
  await page.getByLabel('Category').fill('1');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('#added a').waitFor();
  await page.route('**/v1/pets', (route) => route.abort());
  await page.getByLabel('Name').fill('T'.repeat(400));
  await page.getByLabel('Category').fill('1');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('#add-error', { hasText: 'may have been added' }).waitFor();
  await page.getByLabel('Name').fill('Tim');
  await page.getByRole('button', { name: 'Show all' }).first().click();
  for (const summary of await page.locator('summary').all()) await summary.click();
  await tryAll('the list');
  await page.route('**/v1/pets?*', () => undefined);
  await page.locator('#filter').selectOption('sold');
  await page.locator('#busy').waitFor();
  await tryAll('a list in flight');
  await page.unrouteAll();
  await page.getByLabel('Name').fill(' ');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('dialog').waitFor();
  await tryAll('the question');
  await page.getByRole('button', { name: 'Go back' }).click();
  await page.getByRole('button', { name: 'Forget the key' }).click();
  await page.getByRole('button', { name: 'Show the pets' }).click();
  await tryAll('the key');
  assert.notEqual(
    await page.evaluate('getComputedStyle(document.documentElement).backgroundColor'),
    'rgba(0, 0, 0, 0)',
  );
  await page.goto(`http://127.0.0.1:${port}/healthz`);
});

test(
  'the page has at most 40 kB in all, and its policy allows no inline code',
  inBrowser,
  async (t) => {
    const { page, requests, complaints, port } = await listOf(t, longPets, '');
    let bytes = 0;
    for (const url of requests.filter((each) => !/\/v1\/|^data:/.test(each))) {
      const response = await fetch(url);
      bytes += (await response.arrayBuffer()).byteLength;
      assert.match(response.headers.get('Content-Security-Policy') ?? '', /default-src 'none'/);
      assert.doesNotMatch(response.headers.get('Content-Security-Policy') ?? '', /unsafe/);
      assert.ok(url.startsWith(`http://127.0.0.1:${port}/`), url);
    }
    t.diagnostic(`${bytes} bytes`);
    assert.ok(bytes > 20_000 && bytes < 40_000, `${bytes} bytes`);
    assert.equal(await page.locator('[style], style, script:not([src])').count(), 0);
    assert.deepEqual(complaints, []);
  },
);
