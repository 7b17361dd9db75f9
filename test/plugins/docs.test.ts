// Tests the docs plugin: what it serves, and Swagger UI in a real browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { atEnd } from '../support/at-end.js';
import { corsPlugin } from '../../dist/plugins/cors.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { header } from '../support/client.js';
import { key, start, storedPets, type Running } from '../support/fixture.js';
import { folder, root, StartedServer, startServer } from '../support/process.js';
import {
  petJson,
  documentOf,
  expectResponse,
  expectResponses,
  keyHeaders,
  noKey,
  startWith,
} from '../support/scenes.js';
import { serverWithoutLibraries } from './bare.js';
import { inBrowser, openPage, violationsOf } from './browser.js';
import { until } from '../support/waiting.js';

/** Sends an operation by its form, and returns the part of the page with the operation. */
async function tryOut(page: Page, operationId: string, body?: string): Promise<Locator> {
  const operation = page.locator(`#operations-pets-${operationId}`);
  if (!(await operation.getAttribute('class'))?.includes('is-open')) {
    await operation.locator('.opblock-summary-control').click();
    await operation.getByRole('button', { name: 'Try it out' }).click();
  }
  if (body !== undefined) await operation.locator('textarea.body-param__text').fill(body);
  await operation.getByRole('button', { name: 'Execute' }).click();
  return operation;
}

/** Waits for a response with a status on the page, and returns its body. */
async function shown(operation: Locator, status: number): Promise<string> {
  const response = operation.locator('.live-responses-table');
  await response.locator('tbody .response-col_status', { hasText: String(status) }).waitFor();
  return await response.locator('.response-col_description pre').first().innerText();
}

test(
  'Swagger UI sends requests with the key, shows every digit, and loads nothing from elsewhere',
  inBrowser,
  async (t) => {
    const baseUrl = 'https://api.example.com/v1';
    const running = await start(t, { plugins: [docsPlugin(), ordersPlugin()], baseUrl });
    const home = `http://127.0.0.1:${running.port}`;
    const { page, requests, complaints } = await openPage(t);
    await page.goto(`${home}/docs`);

    const refused = await shown(await tryOut(page, 'listPets'), 401);
    assert.equal(JSON.parse(refused).code, 'unauthorized');

    await page.getByRole('button', { name: 'Authorize' }).first().click();
    await page.locator('.auth-container', { hasText: 'data/dev-key' }).locator('input').fill(key);
    await page
      .locator('.auth-btn-wrapper')
      .getByRole('button', { name: 'Apply credentials' })
      .click();
    // The key is that of the page at `/`, and both forget it.
    const kept = '[localStorage.length, Object.entries(sessionStorage)]';
    assert.deepEqual(await page.evaluate(kept), [0, [['petstore-key', key]]]);
    await page.goto(`${home}/`);
    await page.getByRole('button', { name: 'Forget the key' }).click();
    assert.deepEqual(await page.evaluate(kept), [0, []]);
    await page.goto(`${home}/docs`);
    await page.getByRole('button', { name: 'Authorize' }).first().click();
    await page.locator('.auth-container input').fill(key);
    await page
      .locator('.auth-btn-wrapper')
      .getByRole('button', { name: 'Apply credentials' })
      .click();
    await page.locator('.auth-btn-wrapper').getByRole('button', { name: 'Remove auth' }).click();
    assert.deepEqual(await page.evaluate(kept), [0, []]);
    await page.goto(`${home}/`);
    await page.getByLabel('Your key').fill(key);
    await page.getByRole('button', { name: 'Show the pets' }).click();
    await page.getByText('There are no pets yet.').waitFor();
    // An earlier version kept the key there.
    await page.evaluate("localStorage.setItem('authorized', 'psk_old')");
    await page.goto(`${home}/docs/`);
    const servers = page.locator('.servers option');
    // The page shows no server before it has read the document.
    await servers.first().waitFor({ state: 'attached' });
    assert.deepEqual(
      await servers.allInnerTexts(),
      ['/v1'],
      'the page must offer this server only',
    );
    await page.getByText('Experimental: the fields of an order may change.').waitFor();

    const operation = await tryOut(page, 'createPet');
    assert.match(await shown(operation, 201), /"id": 1,\s+"name": "Wolfgang"/);
    const bodies = [
      '{"name":"Tüm 猫","categoryId":7,"status":"pending"}',
      '{"name":"\\"5\\": 1e9","categoryId":-9223372036854775807}',
    ];
    for (const [index, body] of bodies.entries()) {
      await tryOut(page, 'createPet', body);
      await operation
        .locator('.live-responses-table pre', { hasText: `"id": ${index + 2},` })
        .first()
        .waitFor();
    }
    assert.equal(
      await shown(operation, 201),
      '{\n  "id": 3,\n  "name": "\\"5\\": 1e9",\n  "categoryId": -9223372036854775807\n}',
    );
    const [, second, third] = await storedPets(running);
    assert.deepEqual([second, third], ['2 Tüm 猫 7 pending', '3 "5": 1e9 -9223372036854775807 -']);
    assert.equal(JSON.parse(await shown(await tryOut(page, 'listPets'), 200)).length, 3);

    assert.deepEqual(await page.evaluate(kept), [0, [['petstore-key', key]]]);

    // Swagger UI follows a class, and the page follows the scheme of the system.
    for (const [colorScheme, selector, color] of [
      ['dark', 'html.dark-mode', 'rgb(28, 32, 34)'],
      ['light', 'html:not(.dark-mode)', 'rgb(255, 255, 255)'],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator(selector).waitFor();
      const background = 'getComputedStyle(document.documentElement).backgroundColor';
      assert.equal(await page.evaluate(background), color);
    }

    for (const address of requests)
      assert.ok(address.startsWith(`${home}/`) || address.startsWith('data:'), address);
    for (const complaint of complaints) assert.match(complaint, /responded with a status of 401/);
  },
);

test(
  'a page of a listed origin can add pets and read headers and errors, other pages cannot',
  inBrowser,
  async (t) => {
    const [listed, other] = [await start(t), await start(t)];
    const origins = [`http://127.0.0.1:${listed.port}`];
    const { port } = await startWith(t, corsPlugin({ origins }));
    const { page } = await openPage(t);
    /** Sends a request from a page; returns the status and headers, or the error as a string. */
    const call = async (from: Running, path: string, init: RequestInit = {}): Promise<unknown> => {
      // Unlike the docs, /healthz has no policy that blocks the request.
      await page.goto(`http://127.0.0.1:${from.port}/healthz`);
      return page.evaluate(`fetch('http://127.0.0.1:${port}${path}', ${JSON.stringify(init)}).then(
        ({ status, headers }) => {
          const names = ['Location', 'Link', 'WWW-Authenticate'];
          return [status, ...names.map((name) => headers.get(name)).filter(Boolean)];
        },
        String,
      )`);
    };
    const post = { method: 'POST', headers: keyHeaders, body: petJson };
    const list = { headers: keyHeaders };
    const next = '</v1/pets?limit=1&after=1>; rel="next"';
    for (const [path, init, expected] of [
      ['/v1/pets', post, [201, '/v1/pets/1']],
      ['/v1/pets', post, [201, '/v1/pets/2']],
      ['/v1/pets?limit=1', list, [200, next]],
      ['/v1/pets', {}, [401, 'Bearer realm="petstore"']],
    ] as const)
      assert.deepEqual(await call(listed, path, init), expected);
    for (const init of [post, {}])
      assert.match(String(await call(other, '/v1/pets', init)), /^TypeError/);
    await expectResponse(port, 'GET /v1/pets?after=2', '200 []');
  },
);

test('C58 /docs and its files need no key, and their policy forbids inline scripts', async (t) => {
  const { port } = await startWith(t, docsPlugin());
  const [html, script, css] = ['html', 'javascript', 'css'].map(
    (type) => `text/${type}; charset=utf-8`,
  );
  const library = 'public, max-age=86400';
  for (const [file, type, caching] of [
    ['', html, 'no-store'],
    // These are small, and are not cached so that they stay in step after an upgrade.
    ['/start.js', script, 'no-store'],
    ['/start.css', css, 'no-store'],
    ['/swagger-ui.css', css, library],
    ['/swagger-ui-bundle.js', script, library],
  ] as const) {
    const expectedHeaders = { 'Content-Type': type, 'Cache-Control': caching };
    const response = await expectResponse(port, `GET /docs${file}`, 200, noKey, expectedHeaders);
    const policy = header(response, 'Content-Security-Policy') ?? '';
    assert.match(policy, /default-src 'none'; script-src 'self';.*; frame-ancestors 'none'$/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    if (file === '')
      assert.doesNotMatch(response.body, /<script>|<script [^>]*>[^<]|<style| on\w+=/);
    if (caching === library) {
      const path = join(root, 'node_modules/swagger-ui-dist', file);
      assert.equal(response.body, readFileSync(path, 'latin1'));
    }
  }
  const missing = ['//', '/package.json', '/..%2fpackage.json', '/swagger-ui.css.map'];
  await expectResponses(port, [
    ['HEAD /docs', 200],
    ['GET /docs/', 200, noKey, { 'Content-Type': html }],
    ...missing.map((file) => [`GET /docs${file}`, 404] as const),
  ]);
  assert.ok(!JSON.stringify(await documentOf(port)).includes('/docs'));
});

test('--plugin docs and --dev serve the docs, and --dev prints their URL', async (t) => {
  const cwd = folder(t);
  const env = { PETSTORE_STORAGE: 'memory:' };
  const server = await startServer(t, ['--plugin', 'docs'], { cwd, env });
  assert.equal((await fetch(`${server.url}/docs`)).status, 200);
  assert.ok(!server.stdout.includes('Docs:'));
  for (const more of [[], ['--plugin', 'docs']]) {
    const dev = await startServer(t, ['--dev', ...more], { cwd, env });
    // The banner is printed after the line `listening`.
    const address = await until('Docs:', () => / Docs: (.*)\n/m.exec(dev.stdout)?.[1]);
    assert.equal(address, `${dev.url}/docs`);
    assert.equal((await fetch(address)).status, 200);
  }
});

test('without its library, the page is served, and /docs and the log say what to install', async (t) => {
  const cwd = folder(t);
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_STORAGE: 'memory:' };
  const bare = serverWithoutLibraries(t);
  const install = 'npm install --ignore-scripts swagger-ui-dist@5';
  for (const option of [['--plugin', 'docs'], ['--dev']]) {
    const server = new StartedServer(process.execPath, [bare.file, ...option], { cwd, env });
    atEnd(t, () => server.end('SIGKILL'));
    await server.waitForLog('listening');
    const textAt = async (path: string): Promise<string> => {
      const response = await fetch(`${server.url}${path}`);
      assert.equal(response.status, 200, path);
      return response.text();
    };
    assert.match(await textAt('/'), /id="add-form"/);
    assert.match(await textAt('/page/script.js'), /^import /);
    assert.match(await textAt('/page/style.css'), /^:root/);
    for (const [path, style] of [
      ['/docs', 'page/style.css'],
      ['/docs/', '../page/style.css'],
    ] as const) {
      const page = await textAt(path);
      assert.ok(page.includes(`>${install}<`) && page.includes(`href="${style}"`), page);
    }
    assert.equal((await fetch(`${server.url}/docs/start.js`)).status, 404);
    const warnings = server.log.filter(({ level }) => level === 'warn');
    assert.deepEqual(
      warnings.map(({ msg, install: command }) => [msg, command]),
      [['the page /docs needs a package that is not installed', install]],
    );
  }
});

test('/docs without its library is a page that passes axe', inBrowser, async (t) => {
  const module = join(dirname(serverWithoutLibraries(t).file), 'plugins/docs.js');
  const { docsPlugin: bare } = await import(module);
  const { port } = await startWith(t, bare());
  const { page, complaints } = await openPage(t);
  for (const path of ['/docs', '/docs/'])
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(`http://127.0.0.1:${port}${path}`);
      assert.deepEqual(await violationsOf(page), []);
      await page.getByRole('link', { name: 'page with the pets' }).click();
      await page.getByLabel('Your key').waitFor();
    }
  assert.deepEqual(complaints, []);
});

test('package.json turns off the telemetry of swagger-ui-dist', () => {
  const { scarfSettings } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  assert.deepEqual(scarfSettings, { enabled: false });
});
