// Tests the page at `/` in a real browser: the key, lists of pets, adding a pet, and errors.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Page, Route } from 'playwright-core';
import {
  createPetstore,
  jsonReply,
  memoryStorage,
  toByteString,
  type PetDraft,
  type PetstoreOptions,
  type PetStorage,
  type Plugin,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { header } from '../support/client.js';
import { sendRequest, key, start, storedPets, type Running } from '../support/fixture.js';
import { folder, runServer } from '../support/process.js';
import {
  blockedStorage,
  expectResponse,
  expectResponses,
  noKey,
  plainStorage,
  serve,
} from '../support/scenes.js';
import { gate, until } from '../support/waiting.js';
import { inBrowser, openPage, type Visit } from './browser.js';

const plugins = [docsPlugin()];

/** The elements that tell the user something. */
type Speaking =
  | 'key-error'
  | 'list-error'
  | 'summary'
  | 'add-error'
  | 'add-form'
  | 'pending'
  | 'progress';

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

  async goToId(id: string): Promise<void> {
    await this.page.getByLabel('Go to id').fill(id);
    await this.press('Go');
  }

  /** Waits until an element contains a text. */
  async says(id: Speaking, text: string): Promise<void> {
    await this.page.locator(`#${id}`, { hasText: text }).waitFor();
  }

  /** Waits until the title of the page is that of a view. */
  async isTitled(title: string): Promise<void> {
    await until(title, async () => (await this.page.title()) === `${title} · petstore`);
  }

  /** Waits until the focus is on an element. */
  async isFocused(selector: string): Promise<void> {
    await this.page.locator(`${selector}:focus`).waitFor({ state: 'attached' });
  }

  /** Loses the responses to all adds until `page.unrouteAll`: the server carries them out. */
  async loseResponses(): Promise<void> {
    await this.page.route('**/v1/pets', async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      await route.fetch();
      await route.abort();
    });
  }

  async isEmpty(): Promise<void> {
    await this.page.getByText(/^There are no pets (yet|on this page)\.$/).waitFor();
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
    // The field is shown again once the key is forgotten.
    assert.equal(await page.getByLabel('Your key').inputValue(), '');
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

test('the page shows all digits of ids, and pages of them', inBrowser, async (t) => {
  const far = 2n ** 63n - 30n;
  const storage = plainStorage(({ list }) => ({
    list: async ({ after, ...query }) => {
      const start = after === undefined || after < far ? 0n : after - far;
      const pets = await list({ ...query, after: start });
      return pets.map((pet) => ({ ...pet, id: pet.id + far }));
    },
  }));
  for (let i = 1; i <= 21; i++) await storage.insert({ name: 'a', categoryId: 1n });
  const own = await shop(t, { storage });
  assert.equal((await own.rows(far + 1n))[19], `${far + 20n}\ta\t1\t`);
  await own.follow('Next page');
  assert.deepEqual(await own.rows(far + 21n), [`${far + 21n}\ta\t1\t`]);
  await own.goToId(String(far + 5n));
  await own.isTitled(`Pet ${far + 5n}`);
  assert.equal((await own.rows(far + 5n)).length, 17);
});

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
    // The focus moves from the heading to the filter, the id, its button, the download, the command,
    // the name and the category.
    await own.isFocused('#pets');
    await keys(...Array<string>(6).fill('Tab'), '"Tüm" 猫', 'Tab', '9223372036854775808', 'Enter');
    await own.says('add-error', 'ategory id must be an integer from');
    assert.equal(await page.getByLabel('Name').inputValue(), '"Tüm" 猫');
    const category = page.getByLabel('Category');
    for (const wrong of ['', '7.0.0', '1,"status":"sold"']) {
      await category.fill(wrong);
      const refused = page.waitForResponse((response) => response.status() === 400);
      await keys('Enter');
      await refused;
      // The page ignores the key until it has read the response.
      await page.locator('#add:enabled').waitFor();
    }
    assert.deepEqual(await storedPets(own), []);
    await category.fill('9223372036854775807');
    await keys('Tab', 'pending', 'Tab', 'Enter');
    await page.getByRole('status').filter({ hasText: 'Added with the id 1.' }).waitFor();
    assert.deepEqual(await own.rows(1), ['1\t"Tüm" 猫\t9223372036854775807\tpending']);
    assert.deepEqual(await storedPets(own), ['1 "Tüm" 猫 9223372036854775807 pending']);
    assert.equal(await page.getByLabel('Name').inputValue(), '');
    await own.isFocused('#name');

    // Nothing can be deleted, so a blank name needs a second key.
    await keys('\u200b ', 'Tab', '1', 'Enter');
    await page.getByRole('dialog').filter({ hasText: 'The name is blank.' }).waitFor();
    await keys('Enter');
    await own.isFocused('#name');
    assert.equal((await storedPets(own)).length, 1);
    await keys('Enter');
    await page.getByRole('dialog').waitFor();
    await keys('Tab', 'Enter');
    await own.added(2);
    await own.rows(1);
    assert.equal((await storedPets(own))[1], '2 \u200b  1 -');

    // The link to the pet, and its command and a page of the list.
    await keys('Tab', 'Tab', 'Tab', 'Tab');
    await own.isFocused('#added a');
    await keys('Enter');
    await own.isFocused('#rows tr');
    await own.isTitled('Pet 2');

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

test('an add whose response is lost is finished after a reload, once', inBrowser, async (t) => {
  const own = await shop(t);
  const { page } = own;
  await own.loseResponses();
  await own.add('Rex');
  await own.says(
    'add-error',
    'The pet may have been added. Press Add again to find out; that adds',
  );
  await page.reload();
  await own.says('pending', 'the pet “\u2068Rex\u2069” may have been added. Finish it');
  // On a phone, the offer is below the list, so the focus moves there, and a button above leads there.
  await own.isFocused('#finish');
  await page.setViewportSize({ width: 320, height: 640 });
  await own.press('Unfinished add');
  await own.isFocused('#finish');
  assert.equal(await page.getByLabel('Name').inputValue(), 'Rex');
  await page.unrouteAll();
  await own.press('Finish it');
  await own.added(1);
  assert.equal(await page.getByLabel('Name').inputValue(), '');
  assert.deepEqual(await storedPets(own), ['1 Rex 1 -']);
  await own.press('Add a pet');
  await own.isFocused('#name');

  // A reload while the add is in flight loses the response, too.
  const [arrived, held] = [gate(), gate()];
  await page.route('**/v1/pets', async (route) => {
    await route.fetch();
    arrived.open();
    await held.opened;
    await route.abort().catch(() => undefined);
  });
  await own.add('Tom', '2');
  await arrived.opened;
  await page.reload();
  held.open();
  await page.unrouteAll();
  await own.says('pending', 'the pet “\u2068Tom\u2069” may have been added');
  await own.press('Add');
  await own.added(2);
  await page.reload();
  await own.rows(1);
  assert.ok(await page.locator('#pending').isHidden());
  assert.deepEqual(await storedPets(own), ['1 Rex 1 -', '2 Tom 2 -']);
});

test(
  'editing a text whose add has no outcome starts a new add, and the page says so',
  inBrowser,
  async (t) => {
    const own = await shop(t, { keys: [key, 'psk_other'] });
    const { page } = own;
    await own.loseResponses();
    await own.add('Rex');
    await own.says('add-error', 'may have been added');
    await page.getByLabel('Name').fill('Rexy');
    await own.says(
      'pending',
      'so Add starts a new add. An earlier add has no outcome: the pet “\u2068Rex\u2069”',
    );
    assert.equal(await page.locator('#add-error').innerText(), '');
    await own.press('Restore the text');
    assert.equal(await page.getByLabel('Name').inputValue(), 'Rex');
    await own.says('pending', 'Finish it to find out');

    // The server recognises a repeat by the API key, too.
    await own.press('Forget the key');
    await own.giveKey('psk_other');
    await own.press('Finish it');
    await page.getByRole('dialog').filter({ hasText: 'another API key' }).waitFor();
    await own.press('Go back');
    assert.deepEqual(await storedPets(own), ['1 Rex 1 -']);
    await own.press('Forget the key');
    await own.giveKey();
    await page.unrouteAll();
    await own.press('Finish it');
    await own.added(1);

    await own.loseResponses();
    await own.add('Tom');
    await own.says('add-error', 'may have been added');
    await page.unrouteAll();
    await own.add('Tim');
    await own.added(3);
    // The earlier add is still to be finished.
    await own.says('pending', 'the pet “\u2068Tom\u2069” may have been added');
    await own.press('Finish it');
    await own.added(2);
    assert.ok(await page.locator('#pending').isHidden());
    assert.deepEqual(await storedPets(own), ['1 Rex 1 -', '2 Tom 1 -', '3 Tim 1 -']);

    await own.loseResponses();
    await own.add('Kim');
    await own.says('add-error', 'may have been added');
    await page.getByLabel('Name').fill('');
    await own.press('Forget it');
    assert.ok(await page.locator('#pending').isHidden());
    assert.ok(await page.evaluate("sessionStorage.getItem('petstore-add') === null"));

    // A name is cut between characters, and its direction ends with it.
    const long = `${'a'.repeat(39)}😀\u202e tail`;
    await own.add(long);
    await own.says('add-error', 'may have been added');
    await page.getByLabel('Name').fill('');
    await own.says('pending', `“\u2068${'a'.repeat(39)}😀…\u2069” may`);
    await own.press('Forget it');
  },
);

test(
  'a key that ends in the middle of an add keeps the text, and the add stays one',
  inBrowser,
  async (t) => {
    const valid = new Set([key]);
    const own = await shop(t, { keys: (token) => (valid.has(token) ? 'me' : undefined) });
    const { page } = own;
    await own.loseResponses();
    await own.add('Rex');
    await own.says('add-error', 'may have been added');
    await page.unrouteAll();
    valid.clear();
    await own.press('Add');
    await own.says('key-error', 'API key');
    await own.isTitled('API key');
    await own.isFocused('#key');
    valid.add(key);
    await own.giveKey();
    await own.rows(1);
    assert.equal(await page.locator('#add-error').innerText(), '');
    assert.equal(await page.getByLabel('Name').inputValue(), 'Rex');
    await own.press('Add');
    await own.added(1);
    assert.deepEqual(await storedPets(own), ['1 Rex 1 -']);
  },
);

test(
  'without session storage, the page keeps key and add as long as it is open',
  inBrowser,
  async (t) => {
    const own = await shop(t, {}, null);
    const { page } = own;
    await page.addInitScript(`Object.defineProperty(window, 'sessionStorage', {
    get() { throw new DOMException('denied', 'SecurityError'); },
  })`);
    await page.reload();
    await own.giveKey();
    await own.says('summary', 'There are no pets yet.');
    await page.getByText('This browser blocks session storage.').waitFor();
    await own.loseResponses();
    await own.add('Rex');
    await own.says('add-error', 'Do not reload this page before');
    await page.unrouteAll();
    await own.press('Add');
    await own.added(1);
    await own.press('Forget the key');
    assert.ok(await page.getByLabel('Your key').isVisible());
    assert.deepEqual(await storedPets(own), ['1 Rex 1 -']);
    assert.deepEqual(own.complaintsExcept(/ERR_FAILED/), []);
  },
);

test('a late refusal of the key before does not forget the key now', inBrowser, async (t) => {
  const own = await shop(t, {}, null);
  const { page } = own;
  const [arrived, held, done] = [gate(), gate(), gate()];
  await page.route('**/v1/pets?*', async (route) => {
    if ((await route.request().headerValue('authorization')) === `Bearer ${key}`)
      return route.continue();
    arrived.open();
    await held.opened;
    await route.continue();
    done.open();
  });
  await own.giveKey('psk_late');
  await arrived.opened;
  await own.giveKey();
  await own.isEmpty();
  const refused = page.waitForResponse((response) => response.status() === 401);
  held.open();
  await done.opened;
  await (await refused).finished();
  await own.add('Rex');
  await own.added(1);
});

test('the page keeps what is typed while an add is in flight', inBrowser, async (t) => {
  const { storage, inserting, release } = blockedStorage();
  const own = await shop(t, { storage });
  const { page } = own;
  await own.add('Rex', '1');
  await own.press('Add');
  await inserting;
  await page.getByLabel('Name').fill('Tom');
  assert.ok(await page.locator('#add').isDisabled());
  release();
  await own.added(1);
  assert.equal(await page.getByLabel('Name').inputValue(), 'Tom');
  assert.equal(await page.getByLabel('Category').inputValue(), '');
  await own.isFocused('#name');
});

test(
  'a pet that was added is shown and linked, even if the list is on another page',
  inBrowser,
  async (t) => {
    const pets = Array.from(
      { length: 45 },
      (_, index): PetDraft => ({
        name: `n${index + 1}`,
        categoryId: 1n,
        status: index % 2 === 0 ? 'sold' : 'pending',
      }),
    );
    let busy = gate();
    busy.open();
    const slow: Plugin = ({ around }) =>
      around(async (_, next) => {
        await busy.opened;
        return next();
      });
    const own = await shop(t, { storage: holding(pets), plugins: [...plugins, slow] });
    const { page } = own;
    await own.rows(1);
    await own.isTitled('Pets');
    await own.isFocused('#pets');
    await page.locator('#filter').focus();
    await page.locator('#filter').selectOption('sold');
    await own.isTitled('Sold pets');
    await own.isFocused('#filter');
    await own.says('summary', '20 pets, ids 1 to 39');

    await own.add('Rex');
    await own.added(46);
    assert.deepEqual(await page.locator('#new tr').allInnerTexts(), ['46\tRex\t1\t']);
    assert.equal(await page.locator('#rows tr').count(), 20);
    await own.follow('46');
    assert.deepEqual(await own.rows(46), ['46\tRex\t1\t']);
    await own.isFocused('#rows tr');
    assert.equal(await page.locator('#new tr').count(), 0);

    // Another person may enter the next key.
    await own.press('Forget the key');
    await page.goto(`${page.url().split('#')[0]}#`);
    await own.giveKey();
    await own.rows(1);
    assert.equal(await page.locator('#new tr').count(), 0);

    await own.goToId('17');
    assert.equal((await own.rows(17)).length, 20);
    await own.isTitled('Pet 17');
    await own.follow('Previous page');
    assert.equal((await own.rows(1)).length, 20, 'the ids before 17 are fewer than a page');
    await own.goToId('99');
    await own.says('summary', 'There is no pet with the id 99. There are no pets on this page.');
    for (const wrong of ['x', '0', '9223372036854775808']) {
      await own.goToId(wrong);
      await own.says('list-error', `not “${wrong}”`);
    }

    // Pages of a filter have gaps, so Previous needs the pages that were seen.
    await page.goto(`${page.url().split('#')[0]}#status=sold&limit=5`);
    await own.rows(1);
    for (const id of [11, 21]) {
      await own.follow('Next page');
      await own.rows(id);
      await own.isFocused('#pets');
    }
    await own.isTitled('Sold pets after id 19');
    await page.reload();
    await own.rows(21);
    await own.follow('Previous page');
    await own.rows(11);
    await page.goBack();
    await own.rows(21);
    await own.follow('First page');
    assert.equal((await own.rows(1)).length, 5, 'the limit stays');
    assert.ok(await page.getByRole('link', { name: 'Previous page' }).isHidden());

    busy = gate();
    await own.follow('Next page');
    await page.locator('#busy').waitFor();
    assert.equal(await page.locator('#list').getAttribute('aria-busy'), 'true');
    busy.open();
    await own.rows(11);
    assert.ok(await page.locator('#busy').isHidden());
  },
);

test('a page that the browser translates sends the values of options', inBrowser, async (t) => {
  const own = await shop(t, { storage: holding([{ name: 'a', categoryId: 1n, status: 'sold' }]) });
  const { page } = own;
  await own.rows(1);
  await page.evaluate(`for (const option of document.querySelectorAll('option'))
    if (option.text === 'sold') option.text = 'verkauft'`);
  await page.locator('#filter').selectOption({ label: 'verkauft' });
  await own.isTitled('Sold pets');
  assert.deepEqual(await own.rows(1), ['1\ta\t1\tsold']);
  await page.locator('#status').selectOption({ label: 'verkauft' });
  await own.add('b');
  await own.added(2);
  assert.equal((await storedPets(own))[1], '2 b 1 sold');
});

test('a name of 8 MiB is shown and added', inBrowser, async (t) => {
  const name = `"${'é'.repeat(2 ** 22)}`;
  const storage = holding([{ name, categoryId: 1n }]);
  const own = await shop(t, { storage, maxBodyBytes: 2 ** 24 });
  const { page } = own;
  await own.says('summary', '1 pet, id 1');
  await own.press('Show all');
  const length = 'document.querySelector("#rows td.text span").textContent.length';
  assert.equal(await page.evaluate(length), name.length);
  await own.press('Show less');
  assert.equal(await page.evaluate(length), 1_001);
  // A text that is longer than session storage takes.
  await page.evaluate("document.getElementById('name').value = 'n'.repeat(6_000_000)");
  await page.getByLabel('Category').fill('1');
  await own.loseResponses();
  await own.press('Add');
  await own.says('add-error', 'Do not reload this page before');
  await page.unrouteAll();
  await own.press('Add');
  await own.added(2);
  assert.equal((await storage.list({ limit: 9 })).length, 2);
});

test('the page downloads all pets, exact to the byte, and can be stopped', inBrowser, async (t) => {
  const pets = Array.from(
    { length: 250 },
    (_, index): PetDraft => ({
      name: `"Tüm" ${index} \u0000\u2028`,
      categoryId: 2n ** 62n + BigInt(index),
    }),
  );
  let held = gate();
  let isBusy = false;
  const slow: Plugin = ({ around }) =>
    around(async (_, next) => {
      await held.opened;
      if (!isBusy) return next();
      isBusy = false;
      return jsonReply(503, toByteString('{"message":"Busy."}'), ['Retry-After', '0']);
    });
  held.open();
  const own = await shop(t, { storage: holding(pets), plugins: [...plugins, slow] });
  const { page } = own;
  await own.rows(1);
  isBusy = true;
  const downloading = page.waitForEvent('download');
  await own.press('Download all');
  const download = await downloading;
  assert.equal(download.suggestedFilename(), 'pets.jsonl');
  const text = readFileSync((await download.path()) ?? '', 'utf8');
  const lines = text.split('\n');
  assert.equal(lines.length, 251);
  for (const id of [1, 100, 101, 250]) {
    const { body } = await sendRequest(own.port, 'GET', `/v1/pets/${id}`);
    assert.equal(Buffer.from(lines[id - 1] ?? '').toString('latin1'), body);
  }
  await own.says('progress', '250 pets in pets.jsonl.');

  const storage = `file:${join(folder(t), 'pets.jsonl')}`;
  const file = (await download.path()) ?? '';
  const { code, stdout, stderr } = await runServer(['import', file, '--storage', storage], {
    cwd: folder(t),
  });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^250 pets added/);

  held = gate();
  await own.press('Download all');
  await own.press('Stop');
  await own.says('progress', 'Stopped; nothing was saved.');
  held.open();
});

test(
  'each list and each add is shown as a curl command, which a button copies',
  inBrowser,
  async (t) => {
    const own = await shop(t);
    const { page } = own;
    await page.goto(`${page.url()}#limit=5&after=1`);
    await own.isTitled('Pets after id 1');
    const list = (await page.locator('#list-curl').textContent()) ?? '';
    assert.ok(list.endsWith(`'http://127.0.0.1:${own.port}/v1/pets?limit=5&after=1'`), list);
    assert.ok(list.includes('Bearer $PETSTORE_KEY') && !list.includes(key), list);

    await page.locator('summary', { hasText: 'List' }).click();
    // Pages over plain HTTP from another machine have no clipboard, so the text is selected.
    for (const replacement of [
      '{ writeText: async (text) => { window.copied = text; } }',
      'undefined',
    ]) {
      await page.evaluate(`Object.defineProperty(navigator, 'clipboard', {
      value: ${replacement}, configurable: true,
    })`);
      await page.locator('[data-copies=list-curl]').click();
      await page.locator('[data-copies=list-curl]', { hasText: 'Copied' }).waitFor();
      await page.locator('[data-copies=list-curl]', { hasText: /^Copy$/ }).waitFor();
    }
    assert.equal(await page.evaluate('window.copied'), list);
    assert.equal(await page.evaluate('String(getSelection())'), list);

    await page.getByLabel('Name').fill("it's");
    await page.getByLabel('Category').fill('7');
    await page.locator('summary', { hasText: 'Add' }).click();
    const shown = await page.locator('#add-curl').innerText();
    const request = page.waitForRequest((each) => each.method() === 'POST');
    await own.press('Add');
    await own.added(1);
    const sent = (await request).headers()['idempotency-key'] ?? '';
    assert.ok(shown.includes(`Idempotency-Key: ${sent}'`) && !shown.includes(key), shown);
    assert.ok(shown.includes(`-d '{"name":"it'\\''s","categoryId":7}'`), shown);
  },
);
