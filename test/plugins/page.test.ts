/**
 * The page at `/` in a real browser: the key, the animals page by page, adding one, and what goes
 * wrong.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import {
  createPetstore,
  memoryStorage,
  type PetstoreOptions,
  type PetStorage,
  type Plugin,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { header } from '../support/client.js';
import { add, ask, key, start, stored } from '../support/fixture.js';
import { inBrowser, openPage, type Visit } from './browser.js';

/** Shows the page of a petstore, with the key where one is given. */
async function visit(
  t: Parameters<typeof openPage>[0],
  port: number,
  token?: string,
): Promise<Visit> {
  const opened = await openPage(t);
  await opened.page.goto(`http://127.0.0.1:${port}/`);
  if (token !== undefined) await giveKey(opened.page, token);
  return opened;
}

async function giveKey(page: Page, token: string): Promise<void> {
  await page.getByLabel('Your key').fill(token);
  await page.getByRole('button', { name: 'Show the animals' }).click();
}

/** The texts of the table, once its first id is this one. */
async function table(page: Page, firstId: string): Promise<readonly string[]> {
  await page
    .locator('#rows tr:first-child td:first-child', { hasText: new RegExp(`^${firstId}$`) })
    .waitFor();
  return page.locator('#rows tr').allInnerTexts();
}

const plugins = [docsPlugin()];

test('C58 at /: a page without a key, of this machine alone, with a policy; what it links to is there', async (t) => {
  const { port } = await start(t, { plugins });
  const page = await ask(port, 'GET', '/', { authorization: null });
  assert.deepEqual([page.status, header(page, 'Content-Type')], [200, 'text/html; charset=utf-8']);
  const docs = await ask(port, 'GET', '/docs', { authorization: null });
  assert.equal(header(page, 'Content-Security-Policy'), header(docs, 'Content-Security-Policy'));
  const links = [...page.body.matchAll(/(?:href|src)="([^"#:]+)"/g)].map(([, link]) => `/${link}`);
  assert.deepEqual(links.slice(2), ['/docs', '/openapi.json', '/healthz', '/readyz']);
  for (const link of links)
    assert.equal((await ask(port, 'GET', link, { authorization: null })).status, 200, link);
  assert.equal((await ask(port, 'HEAD', '/', { authorization: null })).status, 200);
  assert.equal((await ask(port, 'POST', '/', { body: '' })).status, 405);
  assert.equal((await ask((await start(t)).port, 'GET', '/')).status, 404, 'without the plugin');
});

/** The port of a server that has a petstore at /shop, and asks it as Express does. */
async function mounted(
  t: Parameters<typeof openPage>[0],
  options: Partial<PetstoreOptions> = {},
): Promise<number> {
  const { handler, close } = createPetstore({ keys: [key], plugins, ...options });
  const server = createServer((request, response) => {
    const originalUrl = request.url ?? '';
    const [, rest] = /^\/shop(?![^/?])(.*)$/.exec(originalUrl) ?? [];
    if (rest === undefined) return void response.writeHead(404).end();
    const url = rest.startsWith('/') ? rest : `/${rest}`;
    handler(Object.assign(request, { originalUrl, baseUrl: '/shop', url }), response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, async () => {
    server.closeAllConnections();
    server.close();
    await close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

test('C58 under a framework: the mount path leads to itself with a slash, where the page is', async (t) => {
  const port = await mounted(t);
  const get = (path: string, method = 'GET', from = port): Promise<Response> =>
    fetch(`http://127.0.0.1:${from}${path}`, { method, redirect: 'manual' });
  for (const [path, method] of [
    ['/shop', 'GET'],
    ['/shop', 'HEAD'],
    ['/shop?a=b', 'GET'],
  ] as const) {
    const answer = await get(path, method);
    const { status, headers } = answer;
    assert.deepEqual(
      [status, headers.get('location'), headers.get('content-type'), await answer.text()],
      [308, '/shop/', null, ''],
      `${method} ${path}`,
    );
  }
  assert.match(await (await get('/shop/')).text(), /<title>Petstore<\/title>/);
  assert.equal((await get('/shop', 'POST')).status, 405);
  assert.equal((await get('/shop/docs')).status, 200);
  const bare = await mounted(t, { plugins: [] });
  assert.equal((await get('/shop', 'GET', bare)).status, 404, 'without the plugin');
  for (const baseUrl of ['https://a.example/pets/v1', 'https://a.example/pets']) {
    const answer = await get('/shop', 'GET', await mounted(t, { baseUrl }));
    assert.deepEqual([answer.status, answer.headers.get('location')], [308, '/pets/'], baseUrl);
  }
});

test('C58 in a browser: /shop shows the animals of a petstore at /shop', inBrowser, async (t) => {
  const storage = memoryStorage({ pets: [{ name: 'Rex', categoryId: 5n }] });
  const port = await mounted(t, { storage });
  const { page, complaints } = await openPage(t);
  await page.goto(`http://127.0.0.1:${port}/shop`);
  await giveKey(page, key);
  assert.deepEqual(await table(page, '1'), ['1\tRex\t5\t']);
  assert.equal(page.url(), `http://127.0.0.1:${port}/shop/`);
  assert.deepEqual(complaints, []);
});

test(
  'a wrong key is told, the right one shows the animals, is kept for the tab, and can be forgotten',
  inBrowser,
  async (t) => {
    const { port } = await start(t, { plugins });
    await add(port, '{"name":"<b>Rex</b>","categoryId":5}');
    const { page, requests, complaints } = await visit(t, port, 'wrong');
    await page.getByRole('alert').filter({ hasText: 'API key' }).waitFor();
    assert.ok(await page.getByRole('heading', { name: 'Animals' }).isHidden());
    await giveKey(page, key);
    assert.deepEqual(await table(page, '1'), ['1\t<b>Rex</b>\t5\t']);
    await page.reload();
    assert.equal((await table(page, '1')).length, 1);
    // For the tab alone, as the README says.
    const kept = await page.evaluate('[Object.values(sessionStorage), localStorage.length]');
    assert.deepEqual(kept, [[key], 0]);
    await page.getByRole('button', { name: 'Forget the key' }).click();
    await page.reload();
    assert.ok(await page.getByLabel('Your key').isVisible());
    assert.deepEqual(
      [await page.locator('#rows tr').count(), await page.getByLabel('Your key').inputValue()],
      [0, ''],
    );
    assert.ok(
      requests.every(
        (address) => address.startsWith(`http://127.0.0.1:${port}/`) || address === 'data:,',
      ),
    );
    assert.ok(!requests.some((address) => address.includes(key)));
    assert.deepEqual(
      complaints.filter((complaint) => !complaint.includes('status of 401')),
      [],
    );
  },
);

test('pages, filter and the way back are in the address', inBrowser, async (t) => {
  const running = await start(t, { plugins });
  for (let i = 1; i <= 45; i++) {
    const category = i === 1 ? '-9223372036854775807' : String(i);
    await add(
      running.port,
      `{"name":"n${i}","categoryId":${category}${i > 40 ? ',"status":"sold"' : ''}}`,
    );
  }
  const { page } = await visit(t, running.port, key);
  const first = await table(page, '1');
  assert.deepEqual([first.length, first[0]], [20, '1\tn1\t-9223372036854775807\t']);
  await page.getByRole('link', { name: 'Next page' }).click();
  assert.equal((await table(page, '21')).length, 20);
  await page.getByRole('link', { name: 'Next page' }).click();
  assert.equal((await table(page, '41')).length, 5);
  assert.ok(await page.getByRole('link', { name: 'Next page' }).isHidden());
  await page.goBack();
  await table(page, '21');
  await page.getByRole('link', { name: 'First page' }).click();
  await table(page, '1');
  await page.locator('#filter').selectOption('sold');
  assert.deepEqual((await table(page, '41'))[4], '45\tn45\t45\tsold');
  await page.locator('#filter').selectOption('pending');
  await page.getByText('There is none here.').waitFor();
  await page.goto(`http://127.0.0.1:${running.port}/#limit=0`);
  await page.getByRole('alert').filter({ hasText: 'limit must be an integer' }).waitFor();
});

test('ids at the end of int64 are shown, and paged by, to the last digit', inBrowser, async (t) => {
  const { insert, get, list, close } = memoryStorage();
  const far = 2n ** 63n - 30n;
  const storage: PetStorage = {
    durable: false,
    insert,
    get,
    close,
    list: async ({ after, ...query }) => {
      const pets = await list({ ...query, ...(after !== undefined && { after: after - far }) });
      return pets.map((pet) => ({ ...pet, id: pet.id + far }));
    },
  };
  const { port } = await start(t, { plugins, storage });
  for (let i = 1; i <= 21; i++) await add(port, '{"name":"a","categoryId":1}');
  const { page } = await visit(t, port, key);
  assert.equal((await table(page, String(far + 1n)))[19], `${far + 20n}\ta\t1\t`);
  await page.getByRole('link', { name: 'Next page' }).click();
  assert.deepEqual(await table(page, String(far + 21n)), [`${far + 21n}\ta\t1\t`]);
});

test(
  'an animal is added by the keyboard alone; what is wrong with it is said, and what was typed stays',
  inBrowser,
  async (t) => {
    const running = await start(t, { plugins });
    const { page, complaints } = await visit(t, running.port);
    const keys = async (...pressed: readonly string[]): Promise<void> => {
      for (const one of pressed) {
        if (/^[A-Z][a-z]+$/.test(one)) await page.keyboard.press(one);
        else await page.keyboard.type(one);
      }
    };
    await keys(key, 'Enter');
    await page.getByText('There is none here.').waitFor();
    // The heading has the focus; then the filter, the name, the category.
    await keys('Tab', 'Tab', '"Tüm" 猫', 'Tab', '9223372036854775808', 'Enter');
    await page
      .getByRole('alert')
      .filter({ hasText: 'category id must be an integer from' })
      .waitFor();
    assert.equal(await page.getByLabel('Name').inputValue(), '"Tüm" 猫');
    for (const wrong of ['', '7.0.0', '1,"status":"sold"']) {
      await page.getByLabel('Category').fill(wrong);
      const answered = page.waitForResponse((response) => response.status() === 400);
      await keys('Enter');
      await answered;
    }
    assert.deepEqual(await stored(running), []);
    await page.getByLabel('Category').fill('9223372036854775807');
    await keys('Tab', 'pending', 'Tab', 'Enter');
    await page.getByRole('status').filter({ hasText: 'Added with the id 1.' }).waitFor();
    assert.deepEqual(await table(page, '1'), ['1\t"Tüm" 猫\t9223372036854775807\tpending']);
    assert.deepEqual(await stored(running), ['1 "Tüm" 猫 9223372036854775807 pending']);
    assert.equal(await page.getByLabel('Name').inputValue(), '');
    await running.petstore.close();
    await page.getByLabel('Name').fill('late');
    await page.getByLabel('Category').fill('1');
    await keys('Enter');
    await page.locator('#add-error', { hasText: 'cannot be reached' }).waitFor();
    assert.deepEqual(
      complaints.filter((complaint) => !/status of 400|ERR_CONNECTION/.test(complaint)),
      [],
    );
  },
);

/** Types an animal into the form. */
async function type(page: Page, name: string): Promise<void> {
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Category').fill('1');
}

async function pressAdd(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Add', exact: true }).click();
}

test(
  'an animal whose answer is lost, in whatever way, is there once after Add was pressed again',
  inBrowser,
  async (t) => {
    const sent: unknown[] = [];
    const noting: Plugin = ({ around }) =>
      around(async ({ method, header: headerOf }, next) => {
        if (method === 'POST') sent.push(headerOf('idempotency-key'));
        return next();
      });
    const running = await start(t, { plugins: [...plugins, noting] });
    const opened = await openPage(t);
    const { page } = opened;
    // As on a page that came by plain HTTP from another machine.
    await page.addInitScript('delete Crypto.prototype.randomUUID');
    await page.goto(`http://127.0.0.1:${running.port}/`);
    await giveKey(page, key);
    /** What comes in place of the answer to what was carried out. */
    let failure: number | 'lost' | 'unreadable' | undefined;
    await page.route('**/v1/pets', async (route) => {
      if (failure === undefined) return route.continue();
      await route.fetch();
      if (failure === 'lost') return route.abort();
      if (failure === 'unreadable') return route.fulfill({ body: '<p>' });
      return route.fulfill({ status: failure, body: `{"message":"Refused by ${failure}."}` });
    });
    const failures = ['lost', 'unreadable', 503, 500, 409, 429] as const;
    for (const [index, each] of failures.entries()) {
      await type(page, `n${index}`);
      for (const again of [1, 2]) {
        failure = each;
        await pressAdd(page);
        const words = {
          lost: 'The server cannot be reached; try again.',
          unreadable: 'no answer of a petstore: status 200',
        };
        await page
          .locator('#add-error', {
            hasText: typeof each === 'number' ? `Refused by ${each}.` : words[each],
          })
          .waitFor();
        assert.equal(sent.length, 3 * index + again);
      }
      failure = undefined;
      await pressAdd(page);
      await page.getByText(`Added with the id ${index + 1}.`).waitFor();
      assert.equal(new Set(sent.slice(-3)).size, 1, String(each));
    }
    assert.deepEqual(
      await stored(running),
      failures.map((_, index) => `${index + 1} n${index} 1 -`),
    );
    assert.equal(new Set(sent).size, failures.length);
    assert.ok(sent.every((each) => /^[!-~]{20,255}$/.test(String(each))));
  },
);

test('another text, and the same one after an answer, is another animal', inBrowser, async (t) => {
  const running = await start(t, { plugins });
  const { page } = await visit(t, running.port, key);
  const sent: unknown[] = [];
  const answers: ('lost' | 'refused')[] = [];
  await page.route('**/v1/pets', async (route) => {
    sent.push(await route.request().headerValue('idempotency-key'));
    const answer = answers.shift();
    if (answer === undefined) return route.continue();
    if (answer === 'lost') return route.abort();
    return route.fulfill({ status: 400, body: '{"message":"Refused."}' });
  });
  answers.push('lost', 'lost', 'refused', 'refused');
  for (const [name, words] of [
    ['a', 'cannot be reached'],
    ['b', 'cannot be reached'],
    ['c', 'Refused.'],
    ['c', 'Refused.'],
    ['c', 'Added with the id 1.'],
    ['c', 'Added with the id 2.'],
  ] as const) {
    await type(page, name);
    await pressAdd(page);
    await page.locator('#add-form', { hasText: words }).waitFor();
    await page.locator('#add:enabled').waitFor();
  }
  assert.equal(new Set(sent).size, 6);
  assert.ok(!sent.includes(null));
  assert.deepEqual(await stored(running), ['1 c 1 -', '2 c 1 -']);
});

test(
  'what is no answer of a petstore is said with its status; the key stays, and the animal is there once',
  inBrowser,
  async (t) => {
    const running = await start(t, { plugins });
    const { page, complaints } = await visit(t, running.port, key);
    await page.getByText('There is none here.').waitFor();
    type Foreign = Parameters<Route['fulfill']>[0];
    const html = { contentType: 'text/html', body: '<!doctype html><title>Sign in</title>' };
    const json = { contentType: 'application/json' };
    const foreign: readonly (readonly [Foreign, string])[] = [
      [{ status: 502, ...html }, 'status 502, text/html'],
      [{ status: 200, ...html }, 'status 200, text/html'],
      [{ status: 401, ...html }, 'status 401, text/html'],
      [{ status: 403, ...html }, 'status 403, text/html'],
      [{ status: 504, ...json, body: '{"error":"timeout"}' }, 'status 504, application/json'],
      [{ status: 500, ...json, body: 'null' }, 'status 500, application/json'],
      [{ status: 200, ...json, body: '{}' }, 'status 200, application/json'],
      [{ status: 200, ...json, body: '"signed out"' }, 'status 200, application/json'],
      [{ status: 200, body: '' }, 'status 200.'],
    ];
    for (const [answer, words] of foreign) {
      await page.route('**/v1/pets*', (route) => route.fulfill(answer));
      const text = `What came is no answer of a petstore: ${words}`;
      await page.reload();
      await page.locator('#list-error', { hasText: text }).waitFor();
      await page.unrouteAll();
    }
    await page.reload();
    await page.getByText('There is none here.').waitFor();

    // Behind a proxy that carries a POST out and loses its answer, Add is pressed again.
    await type(page, 'once');
    for (const [answer, words] of foreign) {
      await page.route('**/v1/pets', async (route) => {
        await route.fetch();
        await route.fulfill(answer);
      });
      await pressAdd(page);
      await page.locator('#add-error', { hasText: words }).waitFor();
      await page.unrouteAll();
    }
    await pressAdd(page);
    await page.getByText('Added with the id 1.').waitFor();
    assert.deepEqual(await stored(running), ['1 once 1 -']);
    assert.deepEqual(
      complaints.filter((complaint) => !/status of (4|5)\d\d/.test(complaint)),
      [],
    );
  },
);

test('a redirect, as to a login elsewhere, is said, and not followed', inBrowser, async (t) => {
  let isSignedOut = false;
  let asked = 0;
  const login = createServer((_request, response) => {
    asked++;
    response.end('<title>Sign in</title>');
  });
  await new Promise<void>((resolve) => login.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => login.close());
  const address = login.address();
  assert.ok(typeof address === 'object' && address !== null);
  const signingOut: Plugin = ({ around }) =>
    around(async ({ keyName }, next) => {
      if (!isSignedOut || keyName === undefined) return next();
      return { status: 302, headers: ['Location', `http://127.0.0.1:${address.port}/login`] };
    });
  const running = await start(t, { plugins: [...plugins, signingOut] });
  const { page } = await visit(t, running.port, key);
  await page.getByText('There is none here.').waitFor();
  isSignedOut = true;
  await page.reload();
  await page
    .locator('#list-error', { hasText: 'no answer of a petstore: a redirect elsewhere' })
    .waitFor();
  assert.equal(asked, 0);
});

test(
  'what cannot be a key is told so, without a request, and is not kept',
  inBrowser,
  async (t) => {
    const { port } = await start(t, { plugins });
    const { page, requests } = await visit(t, port);
    const before = requests.length;
    for (const wrong of ['psk_猫', 'psk_é', 'psk_\u0000', 'two words', '  ']) {
      await page.getByLabel('Your key').fill(wrong);
      await page.getByRole('button', { name: 'Show the animals' }).click();
      await page.getByRole('alert').filter({ hasText: 'This cannot be a key:' }).waitFor();
      assert.equal(await page.evaluate('sessionStorage.length'), 0, wrong);
      await page.evaluate("document.getElementById('key-error').textContent = ''");
    }
    assert.deepEqual(requests.slice(before), []);
    await giveKey(page, ` ${key} `);
    await page.getByText('There is none here.').waitFor();
  },
);

test(
  'a number with zeros or a plus in front is refused by what is wrong with it',
  inBrowser,
  async (t) => {
    const running = await start(t, { plugins });
    const { page, requests } = await visit(t, running.port, key);
    await page.getByText('There is none here.').waitFor();
    await page.getByLabel('Name').fill('Bond');
    const before = requests.length;
    for (const [wrong, right] of [
      ['007', '7'],
      ['-007', '-7'],
      ['+7', '7'],
      ['00', '0'],
      ['-9223372036854775808'.replace('-', '-0'), '-9223372036854775808'],
    ] as const) {
      await page.getByLabel('Category').fill(wrong);
      await pressAdd(page);
      await page
        .locator('#add-error', {
          hasText: `category id has zeros or a plus sign in front; write ${right}.`,
        })
        .waitFor();
      assert.equal(await page.getByLabel('Category').inputValue(), wrong);
    }
    assert.deepEqual(requests.slice(before), []);
    await page.getByLabel('Category').fill('7');
    await pressAdd(page);
    await page.getByText('Added with the id 1.').waitFor();
    assert.deepEqual(await stored(running), ['1 Bond 7 -']);
  },
);

test(
  'a field has one name: in its label, at the head of its column, and in a message',
  inBrowser,
  async (t) => {
    const { port } = await start(t, { plugins });
    const { page } = await visit(t, port, key);
    await page.getByText('There is none here.').waitFor();
    const heads = await page.locator('th').allTextContents();
    const labels = await page.locator('#add-form label').allTextContents();
    assert.ok(labels.length >= 3);
    for (const label of labels) assert.ok(heads.includes(label.toLowerCase()), label);
    await pressAdd(page);
    const message = await page.locator('#add-error', { hasText: 'must be' }).innerText();
    assert.match(message, /^Category id must be an integer from -\d+ to \d+\.$/);
  },
);

test(
  'a storage without idempotency keys is told of; Add again does without',
  inBrowser,
  async (t) => {
    const { insert, get, list, close } = memoryStorage();
    const storage: PetStorage = { durable: false, insert, get, list, close };
    const running = await start(t, { plugins, storage });
    const { page } = await visit(t, running.port, key);
    await type(page, 'a');
    await pressAdd(page);
    await page.getByRole('alert').filter({ hasText: 'keeps no idempotency keys' }).waitFor();
    assert.deepEqual(await stored(running), []);
    await pressAdd(page);
    await page.getByText('Added with the id 1.').waitFor();
    assert.deepEqual(await stored(running), ['1 a 1 -']);
  },
);

test(
  'however long a name is, id, category and status stand on one line each, and the name is readable',
  inBrowser,
  async (t) => {
    const { insert, get, list, close } = memoryStorage();
    const far = 2n ** 63n - 3n;
    const storage: PetStorage = {
      durable: false,
      insert,
      get,
      close,
      list: async (query) => (await list(query)).map((pet) => ({ ...pet, id: pet.id + far })),
    };
    const { port } = await start(t, { plugins, storage });
    for (const name of ['n'.repeat(400), 'word '.repeat(80)])
      await insert({ name, categoryId: -9223372036854775807n, status: 'available' });
    const { page } = await visit(t, port);
    await giveKey(page, key);
    await table(page, String(far + 1n));
    for (const [width, leastName] of [
      [1280, 200],
      [390, 100],
    ] as const) {
      await page.setViewportSize({ width, height: 844 });
      const lines = await page.evaluate(`[...document.querySelectorAll('#rows td')].map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map(({ top }) => top)).size;
      })`);
      assert.ok(Array.isArray(lines) && lines.length === 8);
      for (const row of [lines.slice(0, 4), lines.slice(4)]) {
        assert.deepEqual([row[0], row[2], row[3]], [1, 1, 1], `${width}`);
        assert.ok(row[1] > 1, `${width}: the name goes on in the next line`);
      }
      const box = await page.locator('#rows td:nth-child(2)').first().boundingBox();
      assert.ok((box?.width ?? 0) >= leastName, `${width}: the name is ${box?.width} wide`);
      const wide = 'document.documentElement.scrollWidth';
      assert.ok(Number(await page.evaluate(wide)) <= width, `${width}`);
    }
  },
);

test(
  'on a phone nothing is wider than the screen; in the dark the page is dark',
  inBrowser,
  async (t) => {
    const { port } = await start(t, { plugins });
    await add(
      port,
      `{"name":"${'n'.repeat(200)}","categoryId":-9223372036854775807,"status":"available"}`,
    );
    const { page } = await visit(t, port);
    await page.setViewportSize({ width: 390, height: 844 });
    await giveKey(page, key);
    await table(page, '1');
    assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth')) <= 390);
    const brightness = async (colorScheme: 'light' | 'dark'): Promise<number> => {
      await page.emulateMedia({ colorScheme });
      const color = String(await page.evaluate('getComputedStyle(document.body).color'));
      return Number(/\d+/.exec(color)?.[0]);
    };
    assert.ok((await brightness('light')) < 64 && (await brightness('dark')) > 192, 'of the text');
  },
);
