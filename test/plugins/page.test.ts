// Tests the page at `/` in a real browser: the key, lists of pets, adding a pet, and errors.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Page, Route } from 'playwright-core';
import {
  createPetstore,
  memoryStorage,
  type PetDraft,
  type PetstoreOptions,
  type PetStorage,
  type Plugin,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { header } from '../support/client.js';
import { sendRequest, key, start, storedPets, type Running } from '../support/fixture.js';
import { expectResponse, expectResponses, noKey, plainStorage, serve } from '../support/scenes.js';
import { inBrowser, openPage, type Visit } from './browser.js';

const plugins = [docsPlugin()];

/** The page of a petstore, as a person uses it. */
class Shop {
  readonly page: Page;
  readonly requests: Visit['requests'];
  readonly #complaints: Visit['complaints'];

  constructor({ page, requests, complaints }: Visit) {
    this.page = page;
    this.requests = requests;
    this.#complaints = complaints;
  }

  async giveKey(token = key): Promise<void> {
    await this.page.getByLabel('Your key').fill(token);
    await this.press('Show the pets');
  }

  async press(name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).click();
  }

  async follow(name: string): Promise<void> {
    await this.page.getByRole('link', { name }).click();
  }

  /** Fills in the form and presses Add. */
  async add(name: string, category = '1'): Promise<void> {
    await this.page.getByLabel('Name').fill(name);
    await this.page.getByLabel('Category').fill(category);
    await this.press('Add');
  }

  /** Waits until an element contains a text. */
  async says(id: 'key-error' | 'list-error' | 'add-error' | 'add-form', text: string) {
    await this.page.locator(`#${id}`, { hasText: text }).waitFor();
  }

  async isEmpty(): Promise<void> {
    await this.page.getByText('There are no pets on this page.').waitFor();
  }

  async added(id: number): Promise<void> {
    await this.page.getByText(`Added with the id ${id}.`).waitFor();
  }

  /** Waits until the first row has an id, and returns the texts of the rows. */
  async rows(firstId: bigint | number): Promise<readonly string[]> {
    const hasText = new RegExp(`^${firstId}$`);
    await this.page.locator('#rows tr:first-child td:first-child', { hasText }).waitFor();
    return this.page.locator('#rows tr').allInnerTexts();
  }

  /** Returns the errors and warnings that a pattern does not match. */
  complaintsExcept(expected: RegExp): readonly string[] {
    return this.#complaints.filter((complaint) => !expected.test(complaint));
  }
}

/** Starts a petstore and opens its page, by default with the key. */
async function shop(
  t: TestContext,
  options: Partial<PetstoreOptions> = {},
  token: string | null = key,
): Promise<Shop & Running> {
  const running = await start(t, { plugins, ...options });
  const opened = new Shop(await openPage(t));
  await opened.page.goto(`http://127.0.0.1:${running.port}/`);
  if (token !== null) await opened.giveKey(token);
  return Object.assign(opened, running);
}

/** Returns a storage that contains pets. */
const holding = (pets: readonly PetDraft[]): PetStorage => memoryStorage({ pets });

test('C58 / is a page that needs no key, has a policy, and links only to this server', async (t) => {
  const { port } = await start(t, { plugins });
  const page = await expectResponse(port, 'GET /', 200, noKey, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': header(
      await sendRequest(port, 'GET', '/docs'),
      'Content-Security-Policy',
    ),
  });
  const links = [...page.body.matchAll(/(?:href|src)="([^"#:]+)"/g)].map(([, link]) => `/${link}`);
  assert.deepEqual(links.slice(2), ['/docs', '/openapi.json', '/healthz', '/readyz']);
  await expectResponses(port, [
    ...links.map((link) => [`GET ${link}`, 200, noKey] as const),
    ['HEAD /', 200, noKey],
    ['POST /', 405, { body: '' }],
  ]);
  await expectResponse((await start(t)).port, 'GET /', 404);
});

/** Starts a server that mounts a petstore at /shop as Express does, and returns its port. */
async function mounted(t: TestContext, options: Partial<PetstoreOptions> = {}): Promise<number> {
  const { handler, close } = createPetstore({ keys: [key], plugins, ...options });
  atEnd(t, close);
  return serve(t, (request, response) => {
    const originalUrl = request.url ?? '';
    const [, rest] = /^\/shop(?![^/?])(.*)$/.exec(originalUrl) ?? [];
    if (rest === undefined) return void response.writeHead(404).end();
    const url = rest.startsWith('/') ? rest : `/${rest}`;
    handler(Object.assign(request, { originalUrl, baseUrl: '/shop', url }), response);
  });
}

test('C58 a mount path redirects to the page at the same path with a slash', async (t) => {
  const port = await mounted(t);
  // Without this, the fixture would request /healthz on the connection.
  const closing = { headers: ['Connection: close'] };
  for (const request of ['GET /shop', 'HEAD /shop', 'GET /shop?a=b']) {
    const told = { Location: '/shop/', 'Content-Type': undefined };
    const { body } = await expectResponse(port, request, 308, closing, told);
    assert.equal(body, '');
  }
  const page = await expectResponse(port, 'GET /shop/', 200, closing);
  assert.match(page.body, /<title>Petstore<\/title>/);
  await expectResponses(port, [
    ['POST /shop', 405, closing],
    ['GET /shop/docs', 200, closing],
  ]);
  await expectResponse(await mounted(t, { plugins: [] }), 'GET /shop', 404, closing);
  for (const baseUrl of ['https://a.example/pets/v1', 'https://a.example/pets'])
    await expectResponse(await mounted(t, { baseUrl }), 'GET /shop', 308, closing, {
      Location: '/pets/',
    });
});

test('C58 the page works at the mount path /shop', inBrowser, async (t) => {
  const port = await mounted(t, { storage: holding([{ name: 'Rex', categoryId: 5n }]) });
  const opened = new Shop(await openPage(t));
  await opened.page.goto(`http://127.0.0.1:${port}/shop`);
  await opened.giveKey();
  assert.deepEqual(await opened.rows(1), ['1\tRex\t5\t']);
  assert.equal(opened.page.url(), `http://127.0.0.1:${port}/shop/`);
  assert.deepEqual(opened.complaintsExcept(/^$/), []);
});

test(
  'the page refuses a wrong key, and keeps a valid key for the tab until it is forgotten',
  inBrowser,
  async (t) => {
    const storage = holding([{ name: '<b>Rex</b>', categoryId: 5n }]);
    const own = await shop(t, { storage }, null);
    const { page, requests } = own;
    const before = requests.length;
    for (const wrong of ['psk_猫', 'psk_é', 'psk_\u0000', 'two words', '  ']) {
      await own.giveKey(wrong);
      await own.says('key-error', 'This is not a valid key:');
      assert.equal(await page.evaluate('sessionStorage.length'), 0, wrong);
      await page.evaluate("document.getElementById('key-error').textContent = ''");
    }
    assert.equal(requests.length, before);

    await own.giveKey('wrong');
    await page.getByRole('alert').filter({ hasText: 'API key' }).waitFor();
    assert.ok(await page.getByRole('heading', { name: 'Pets', exact: true }).isHidden());
    await own.giveKey(` ${key} `);
    assert.deepEqual(await own.rows(1), ['1\t<b>Rex</b>\t5\t']);
    await page.reload();
    assert.equal((await own.rows(1)).length, 1);
    // The key is kept for this tab only.
    const kept = await page.evaluate('[Object.values(sessionStorage), localStorage.length]');
    assert.deepEqual(kept, [[key], 0]);
    await own.press('Forget the key');
    await page.reload();
    assert.ok(await page.getByLabel('Your key').isVisible());
    assert.equal(await page.locator('#rows tr').count(), 0);
    assert.equal(await page.getByLabel('Your key').inputValue(), '');
    for (const address of requests) {
      assert.ok(address.startsWith(`http://127.0.0.1:${own.port}/`) || address === 'data:,');
      assert.ok(!address.includes(key));
    }
    assert.deepEqual(own.complaintsExcept(/status of 401/), []);
  },
);

test('the URL of the page contains the filter and the page of the list', inBrowser, async (t) => {
  const pets = Array.from(
    { length: 45 },
    (_, index): PetDraft => ({
      name: `n${index + 1}`,
      categoryId: index === 0 ? -9223372036854775807n : BigInt(index + 1),
      ...(index >= 40 && { status: 'sold' }),
    }),
  );
  const own = await shop(t, { storage: holding(pets) });
  const { page } = own;
  const first = await own.rows(1);
  assert.deepEqual([first.length, first[0]], [20, '1\tn1\t-9223372036854775807\t']);
  for (const [id, count] of [
    [21, 20],
    [41, 5],
  ] as const) {
    await own.follow('Next page');
    assert.equal((await own.rows(id)).length, count);
  }
  assert.ok(await page.getByRole('link', { name: 'Next page' }).isHidden());
  await page.goBack();
  await own.rows(21);
  await own.follow('First page');
  await own.rows(1);
  await page.locator('#filter').selectOption('sold');
  assert.equal((await own.rows(41))[4], '45\tn45\t45\tsold');
  await page.locator('#filter').selectOption('pending');
  await own.isEmpty();
  await page.goto(`${page.url().split('#')[0]}#limit=0`);
  await own.says('list-error', 'limit must be an integer');
});

test(
  'the page shows all digits of ids, wraps only names, and follows the dark mode',
  inBrowser,
  async (t) => {
    const far = 2n ** 63n - 30n;
    const storage = plainStorage(({ list }) => ({
      list: async ({ after, ...query }) => {
        const pets = await list({ ...query, ...(after !== undefined && { after: after - far }) });
        return pets.map((pet) => ({ ...pet, id: pet.id + far }));
      },
    }));
    for (const name of ['n'.repeat(400), 'word '.repeat(80)])
      await storage.insert({ name, categoryId: -9223372036854775807n, status: 'available' });
    for (let i = 3; i <= 21; i++) await storage.insert({ name: 'a', categoryId: 1n });
    const own = await shop(t, { storage });
    const { page } = own;
    assert.equal((await own.rows(far + 1n))[19], `${far + 20n}\ta\t1\t`);
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
      assert.ok(Array.isArray(lines));
      for (const row of [lines.slice(0, 4), lines.slice(4, 8)]) {
        assert.deepEqual([row[0], row[2], row[3]], [1, 1, 1], `${width}`);
        assert.ok(row[1] > 1, `${width}: the name must wrap`);
      }
      const box = await page.locator('#rows td:nth-child(2)').first().boundingBox();
      assert.ok((box?.width ?? 0) >= leastName, `${width}: the name is ${box?.width} wide`);
      const wide = 'document.documentElement.scrollWidth';
      assert.ok(Number(await page.evaluate(wide)) <= width, `${width}`);
    }
    const brightness = async (colorScheme: 'light' | 'dark'): Promise<number> => {
      await page.emulateMedia({ colorScheme });
      const color = String(await page.evaluate('getComputedStyle(document.body).color'));
      return Number(/\d+/.exec(color)?.[0]);
    };
    assert.ok((await brightness('light')) < 64 && (await brightness('dark')) > 192, 'of the text');
    await own.follow('Next page');
    assert.deepEqual(await own.rows(far + 21n), [`${far + 21n}\ta\t1\t`]);
  },
);

test(
  'the page can be used by keyboard, and keeps the input after an error',
  inBrowser,
  async (t) => {
    const own = await shop(t, {}, null);
    const { page } = own;
    const keys = async (...pressed: readonly string[]): Promise<void> => {
      for (const one of pressed) {
        if (/^[A-Z][a-z]+$/.test(one)) await page.keyboard.press(one);
        else await page.keyboard.type(one);
      }
    };
    await keys(key, 'Enter');
    await own.isEmpty();
    // The focus moves from the heading to the filter, the name and the category.
    await keys('Tab', 'Tab', '"Tüm" 猫', 'Tab', '9223372036854775808', 'Enter');
    await own.says('add-error', 'ategory id must be an integer from');
    assert.equal(await page.getByLabel('Name').inputValue(), '"Tüm" 猫');
    const category = page.getByLabel('Category');
    for (const wrong of ['', '7.0.0', '1,"status":"sold"']) {
      await category.fill(wrong);
      const refused = page.waitForResponse((response) => response.status() === 400);
      await keys('Enter');
      await refused;
    }
    assert.deepEqual(await storedPets(own), []);
    await category.fill('9223372036854775807');
    await keys('Tab', 'pending', 'Tab', 'Enter');
    await page.getByRole('status').filter({ hasText: 'Added with the id 1.' }).waitFor();
    assert.deepEqual(await own.rows(1), ['1\t"Tüm" 猫\t9223372036854775807\tpending']);
    assert.deepEqual(await storedPets(own), ['1 "Tüm" 猫 9223372036854775807 pending']);
    assert.equal(await page.getByLabel('Name').inputValue(), '');
    await own.petstore.close();
    await own.add('late');
    await own.says('add-error', 'cannot be reached');
    assert.deepEqual(own.complaintsExcept(/status of 400|ERR_CONNECTION/), []);
  },
);

type Foreign = Parameters<Route['fulfill']>[0];
const html = { contentType: 'text/html', body: '<!doctype html><title>Sign in</title>' };
const json = { contentType: 'application/json' };
/** Responses that are not from a petstore, and the start of the message on each. */
const foreign: readonly (readonly [Foreign, string])[] = [
  ...[502, 200, 401, 403].map(
    (status) => [{ status, ...html }, `status ${status}, text/html`] as const,
  ),
  [{ status: 504, ...json, body: '{"error":"timeout"}' }, 'status 504, application/json'],
  [{ status: 500, ...json, body: 'null' }, 'status 500, application/json'],
  [{ status: 200, ...json, body: '{}' }, 'status 200, application/json'],
  [{ status: 200, ...json, body: '"signed out"' }, 'status 200, application/json'],
  [{ status: 200, body: '' }, 'status 200.'],
  [{ body: '<p>' }, 'not from a petstore: status 200'],
];

test(
  'Add pressed again after a lost response adds the pet once, and the page shows the error',
  inBrowser,
  async (t) => {
    const sent: unknown[] = [];
    const noting: Plugin = ({ around }) =>
      around(async ({ method, header: headerOf }, next) => {
        if (method === 'POST') sent.push(headerOf('idempotency-key'));
        return next();
      });
    const own = await shop(t, { plugins: [...plugins, noting] }, null);
    const { page } = own;
    // Browsers have no `randomUUID` on pages over plain HTTP from another machine.
    await page.addInitScript('delete Crypto.prototype.randomUUID');
    await page.reload();
    await own.giveKey();
    const refusals = [503, 500, 409, 429].map((status) => {
      const message = `Refused by ${status}.`;
      return [{ status, body: JSON.stringify({ message }) }, message] as const;
    });
    const away = [undefined, 'The server cannot be reached; try again.'] as const;
    const failures = [away, ...foreign, ...refusals];
    for (const [index, [replacement, message]] of failures.entries()) {
      // The request is carried out, and the page gets another response.
      await page.route('**/v1/pets', async (route) => {
        await route.fetch();
        await (replacement === undefined ? route.abort() : route.fulfill(replacement));
      });
      const times = replacement === undefined ? 2 : 1;
      for (let again = 0; again < times; again++) {
        await own.add(`n${index}`);
        await own.says('add-error', message);
      }
      await page.unrouteAll();
      await own.press('Add');
      await own.added(index + 1);
      assert.equal(new Set(sent.slice(-times - 1)).size, 1, message);
    }
    assert.deepEqual(
      await storedPets(own),
      failures.map((_, index) => `${index + 1} n${index} 1 -`),
    );
    assert.equal(sent.length, 2 * failures.length + 1);
    assert.equal(new Set(sent).size, failures.length);
    assert.ok(sent.every((each) => /^[!-~]{20,255}$/.test(String(each))));
  },
);

test('Add with another text, or after a response, adds another pet', inBrowser, async (t) => {
  const own = await shop(t);
  const { page } = own;
  const sent: unknown[] = [];
  const outcomes = ['lost', 'lost', 'refused', 'refused'];
  await page.route('**/v1/pets', async (route) => {
    sent.push(await route.request().headerValue('idempotency-key'));
    const response = outcomes.shift();
    if (response === undefined) return route.continue();
    if (response === 'lost') return route.abort();
    return route.fulfill({ status: 400, body: '{"message":"Refused."}' });
  });
  for (const [name, message] of [
    ['a', 'cannot be reached'],
    ['b', 'cannot be reached'],
    ['c', 'Refused.'],
    ['c', 'Refused.'],
    ['c', 'Added with the id 1.'],
    ['c', 'Added with the id 2.'],
  ] as const) {
    await own.add(name);
    await own.says('add-form', message);
    await page.locator('#add:enabled').waitFor();
  }
  assert.equal(new Set(sent).size, 6);
  assert.ok(!sent.includes(null));
  assert.deepEqual(await storedPets(own), ['1 c 1 -', '2 c 1 -']);
});

test('the page reports a redirect and does not follow it', inBrowser, async (t) => {
  let isSignedOut = false;
  let loginCount = 0;
  const login = await serve(t, (_request, response) => {
    loginCount++;
    response.end('<title>Sign in</title>');
  });
  const signingOut: Plugin = ({ around }) =>
    around(async ({ keyName }, next) => {
      if (!isSignedOut || keyName === undefined) return next();
      return { status: 302, headers: ['Location', `http://127.0.0.1:${login}/login`] };
    });
  const own = await shop(t, { plugins: [...plugins, signingOut] });
  await own.isEmpty();
  isSignedOut = true;
  await own.page.reload();
  await own.says('list-error', 'not from a petstore: a redirect elsewhere');
  assert.equal(loginCount, 0);
});

test(
  'the page refuses leading zeros and a plus sign, and uses the labels in messages',
  inBrowser,
  async (t) => {
    const own = await shop(t);
    const { page, requests } = own;
    await own.isEmpty();
    const heads = await page.locator('th').allTextContents();
    const labels = await page.locator('#add-form label').allTextContents();
    assert.ok(labels.length >= 3);
    for (const label of labels) assert.ok(heads.includes(label.toLowerCase()), label);

    const before = requests.length;
    for (const [wrong, right] of [
      ['007', '7'],
      ['-007', '-7'],
      ['+7', '7'],
      ['00', '0'],
      ['-09223372036854775808', '-9223372036854775808'],
    ] as const) {
      await own.add('Bond', wrong);
      const message = `category id has leading zeros or a plus sign; write ${right}.`;
      await own.says('add-error', message);
      assert.equal(await page.getByLabel('Category').inputValue(), wrong);
    }
    assert.equal(requests.length, before);
    await own.add('Bond', '');
    const message = await page.locator('#add-error', { hasText: 'must be' }).innerText();
    assert.match(message, /^Category id must be an integer from -\d+ to \d+\.$/);
    await own.add('Bond', '7');
    await own.added(1);
    assert.deepEqual(await storedPets(own), ['1 Bond 7 -']);
  },
);

test('Add pressed again works with a storage without idempotency keys', inBrowser, async (t) => {
  const own = await shop(t, { storage: plainStorage() });
  await own.add('a');
  await own.says('add-error', 'keeps no idempotency keys');
  assert.deepEqual(await storedPets(own), []);
  await own.press('Add');
  await own.added(1);
  assert.deepEqual(await storedPets(own), ['1 a 1 -']);
});
