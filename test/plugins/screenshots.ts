// Takes the README's picture, or writes it to the path in its argument: the page at `/` in light and
// dark, side by side, with pets of data/.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { createPetstore, parseDraft, parseJson, toByteString } from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { root } from '../support/process.js';
import { executablePath, missing } from './browser.js';

if (executablePath === undefined) throw new Error(missing);
const petstore = createPetstore({ keys: ['key'], plugins: [docsPlugin()] });
const lines = readFileSync(join(root, 'data/animals.jsonl'), 'utf8').trim().split('\n');
// A browser without fonts for other scripts shows boxes.
for (const line of lines.filter((text) =>
  /"name":"[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic} .]+"/u.test(text),
))
  await petstore.storage.insert(parseDraft(parseJson(toByteString(line))));
const { url } = await petstore.listen({ port: 0 });
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

const pictures: string[] = [];
for (const colorScheme of ['light', 'dark'] as const) {
  const page = await browser.newPage({ viewport: { width: 540, height: 640 }, colorScheme });
  await page.goto(`${url}/#limit=3`);
  await page.getByLabel('Your key').fill('key');
  await page.getByRole('button', { name: 'Show the pets' }).click();
  await page.locator('#rows tr').nth(2).waitFor();
  await page.evaluate('document.activeElement.blur()');
  pictures.push((await page.screenshot({ fullPage: true })).toString('base64'));
}
const both = await browser.newPage({ viewport: { width: 1080, height: 640 } });
const images = pictures.map((picture) => `<img src="data:image/png;base64,${picture}">`).join('');
await both.setContent(
  `<!doctype html><body style="margin:0;display:flex;align-items:flex-start">${images}</body>`,
);
await both.screenshot({ path: join(root, process.argv[2] ?? 'docs/page.png'), fullPage: true });
await browser.close();
await petstore.close();
