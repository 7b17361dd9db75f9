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
import { assertRefused, folder, root, StartedServer, startServer } from '../support/process.js';
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
import { inBrowser, openPage } from './browser.js';
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
    // The key is kept after the tab is closed, until "Logout".
    const kept = await page.evaluate('[localStorage.authorized, sessionStorage.length]');
    assert.ok(Array.isArray(kept) && String(kept[0]).includes(key) && kept[1] === 0, String(kept));
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
    ['/swagger-ui.css', css, library],
    ['/swagger-ui-bundle.js', script, library],
  ] as const) {
    const expectedHeaders = { 'Content-Type': type, 'Cache-Control': caching };
    const response = await expectResponse(port, `GET /docs${file}`, 200, noKey, expectedHeaders);
    const policy = header(response, 'Content-Security-Policy') ?? '';
    assert.match(policy, /default-src 'none'; script-src 'self';/);
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

test('without its library, --plugin docs exits with 2 and one line, and --dev serves no docs', async (t) => {
  const cwd = folder(t);
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_STORAGE: 'memory:' };
  const bare = serverWithoutLibraries(t);
  const install =
    /^--plugin docs needs a package that is not installed: npm install --ignore-scripts swagger-ui-dist@5$/m;
  for (const more of [[], ['--dev']])
    assertRefused(await bare.run([...more, '--plugin', 'docs'], { cwd, env }), 2, install);
  const dev = new StartedServer(process.execPath, [bare.file, '--dev'], { cwd, env });
  atEnd(t, () => dev.end('SIGKILL'));
  await dev.waitForLog('listening');
  assert.equal((await fetch(`${dev.url}/docs`)).status, 404);
  await until('the banner', () => dev.stdout.includes('curl '));
  assert.ok(!dev.stdout.includes('Docs:'));
});

test('docsPlugin throws an error that names the missing package', async (t) => {
  const module = join(dirname(serverWithoutLibraries(t).file), 'plugins/docs.js');
  const { docsPlugin: bare } = await import(module);
  assert.throws(bare, {
    message:
      'docsPlugin needs a package that is not installed: npm install --ignore-scripts swagger-ui-dist@5',
    code: 'MODULE_NOT_FOUND',
  });
});

test('package.json turns off the telemetry of swagger-ui-dist', () => {
  const { scarfSettings } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  assert.deepEqual(scarfSettings, { enabled: false });
});
