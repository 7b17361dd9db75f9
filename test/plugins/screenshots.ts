// Takes the pictures of the page at `/` for the README, or writes them to the folder in its argument:
// on a phone and on a desk, in light and in dark, with pets of data/.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import {
  createPetstore,
  memoryStorage,
  parseDraft,
  parseJson,
  toByteString,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { root } from '../support/process.js';
import { executablePath, missing } from './browser.js';

if (executablePath === undefined) throw new Error(missing);
const pets = readFileSync(join(root, 'data/animals.jsonl'), 'utf8')
  .trim()
  .split('\n')
  // A browser without fonts for other scripts shows boxes.
  .filter((text) => /"name":"[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic} .]+"/u.test(text))
  .map((line) => parseDraft(parseJson(toByteString(line))));
const petstore = createPetstore({
  keys: ['key'],
  storage: memoryStorage({ pets }),
  plugins: [docsPlugin()],
});
const { url } = await petstore.listen({ port: 0 });
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

for (const [width, height, limit] of [
  [1280, 640, 8],
  [320, 640, 3],
] as const)
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme });
    await page.goto(`${url}/#limit=${limit}&after=20`);
    await page.getByLabel('Your key').fill('key');
    await page.getByRole('button', { name: 'Show the pets' }).click();
    await page
      .locator('#rows tr')
      .nth(limit - 1)
      .waitFor();
    await page.evaluate('document.activeElement.blur()');
    await page.mouse.move(0, 0);
    const name = `page-${width}-${colorScheme}.png`;
    await page.screenshot({ path: join(root, process.argv[2] ?? 'docs', name), fullPage: true });
  }
await browser.close();
await petstore.close();
