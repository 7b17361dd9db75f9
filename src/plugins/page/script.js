// The script of the page at `/`, which lists and adds pets with a key that the user enters. The part
// of the URL after # is the query of the list.
const element = (id) => document.getElementById(id);
const keyName = 'petstore-key';

/** Parses JSON with each number as a string of its digits, because JSON.parse rounds over 2^53. */
function parseExactly(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(tokens, (token) => (token[0] === '"' ? token : `"${token}"`)));
}

/** Parses a list, a pet or an error; returns undefined if `text` is not a petstore's response. */
function bodyOf(text, isOk) {
  let body;
  try {
    body = parseExactly(text);
  } catch {
    return undefined;
  }

  const isError = typeof body?.message === 'string';
  const isFound = Array.isArray(body) || typeof body?.id === 'string';
  return (isOk ? isFound : isError) ? body : undefined;
}

/** Returns the error for a response of another server, such as a proxy or a login page. */
function foreignError({ type, status, headers }) {
  const [mediaType] = (headers.get('Content-Type') ?? '').split(';');
  const parts = [`status ${status}`, ...(mediaType === '' ? [] : [mediaType])];
  const what = type === 'opaqueredirect' ? 'a redirect elsewhere' : parts.join(', ');
  const hint = 'It may come from a proxy or a login page in front of the server.';
  return new Error(`The response is not from a petstore: ${what}. ${hint}`);
}

/**
 * Sends a request with the key, and returns the body and the Link. Forgets a key that the server
 * refuses. Throws an Error with the server's message; only a petstore's error has `status` and
 * `code`.
 */
async function send(address, { headers = {}, ...options } = {}) {
  const token = `Bearer ${sessionStorage.getItem(keyName)}`;
  const all = { Authorization: token, 'Content-Type': 'application/json', ...headers };
  let response;
  let text;
  try {
    // A petstore's API never redirects, and a redirected POST would become a GET.
    response = await fetch(address, { ...options, headers: all, redirect: 'manual' });
    text = await response.text();
  } catch {
    throw new Error('The server cannot be reached; try again.');
  }

  const body = bodyOf(text, response.ok);
  if (body === undefined) throw foreignError(response);
  if (response.status === 401) showKeyForm(body.message);
  const { ok, status } = response;
  if (!ok) throw Object.assign(new Error(body.message), { status, code: body.code });
  return { body, link: response.headers.get('Link') ?? '' };
}

function showKeyForm(message = '') {
  sessionStorage.removeItem(keyName);
  element('store').hidden = true;
  element('rows').replaceChildren();
  element('key-form').hidden = false;
  element('key-error').textContent = message;
  element('key').focus();
}

/** The number of lists requested. Only the response to the latest request is shown. */
let listCount = 0;

/** Shows the list whose query is in the URL after #. */
async function showPets() {
  if (sessionStorage.getItem(keyName) === null) return showKeyForm();
  const listNumber = ++listCount;
  const query = location.hash.slice(1);
  let page = { body: [], link: '' };
  let complaint = '';
  try {
    page = await send(`v1/pets?${query}`);
  } catch (error) {
    complaint = error.message;
  }
  if (listNumber !== listCount || sessionStorage.getItem(keyName) === null) return;
  const status = new URLSearchParams(query).get('status') ?? '';
  const next = /\?([^>]*)>; rel="next"/.exec(page.link)?.[1];
  element('list-error').textContent = complaint;
  element('rows').replaceChildren(...page.body.map(rowOf));
  element('empty').hidden = complaint !== '' || page.body.length > 0;
  element('filter').value = status;
  element('first').href = status === '' ? '#' : `#status=${status}`;
  element('first').hidden = !query.includes('after=');
  element('next').href = `#${next ?? ''}`;
  element('next').hidden = next === undefined;
  element('key-form').hidden = true;
  element('store').hidden = false;
}

/** Returns a row with a cell for each column. The head of the table names the members of a pet. */
function rowOf(pet) {
  const row = document.createElement('tr');
  for (const { dataset, className } of document.querySelectorAll('th')) {
    const cell = row.insertCell();
    cell.className = className;
    cell.dir = 'auto';
    cell.textContent = pet[dataset.member] ?? '';
  }
  return row;
}

element('key-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const key = element('key').value.trim();
  element('key').value = '';
  // Other characters may be invalid in a header, and `fetch` would fail as if the server were down.
  if (!/^[!-~]+$/.test(key))
    return showKeyForm(
      'This is not a valid key: a key has only visible ASCII characters, without spaces.',
    );

  sessionStorage.setItem(keyName, key);
  element('key-error').textContent = '';
  await showPets();
  if (!element('store').hidden) element('pets').focus();
});

element('forget').addEventListener('click', () => showKeyForm());

element('filter').addEventListener('change', () => {
  location.hash = element('filter').value === '' ? '' : `status=${element('filter').value}`;
});

window.addEventListener('hashchange', async () => {
  await showPets();
  // The link that was followed may be hidden now, so the focus moves to the heading.
  if (document.activeElement !== element('filter')) element('pets').focus();
});

/** The last body without a final response, and its idempotency key: a retry adds one pet only. */
let unconfirmed = { body: '', key: '' };
/** True until the server refuses idempotency keys. */
let supportsKeys = true;

/** Returns the headers to add a pet with. */
function headersFor(body) {
  if (!supportsKeys) return {};
  // `crypto.randomUUID` needs HTTPS or localhost.
  const random = crypto.getRandomValues(new Uint32Array(4)).join('-');
  if (unconfirmed.body !== body) unconfirmed = { body, key: random };
  return { 'Idempotency-Key': unconfirmed.key };
}

/** Ends the retries of a body that is refused. After other errors the pet may have been added. */
function noteFailure({ status = 0, code }) {
  if (status >= 400 && status < 500 && ![401, 408, 409, 429].includes(status))
    unconfirmed.body = '';
  // The message tells the user that the server has no idempotency keys. The next try sends none.
  if (code === 'invalid_parameter') supportsKeys = false;
}

/** Removes a leading plus sign and leading zeros of an integer. Returns other texts unchanged. */
function plainInteger(text) {
  return text.replace(/^(?:\+|(-))?0*(0|[1-9]\d*)$/, '$1$2');
}

/** Replaces the JSON names of fields in a message by the names in the head of the table. */
function withLabels(message) {
  let text = message;
  for (const { dataset, textContent } of document.querySelectorAll('th'))
    text = text.replaceAll(dataset.member, textContent);
  return text;
}

element('add-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const category = element('category').value.trim();
  const plain = plainInteger(category);
  if (plain !== category) {
    element('added').textContent = '';
    element('add-error').textContent = withLabels(
      `categoryId has leading zeros or a plus sign; write ${plain}.`,
    );
    return;
  }

  // An integer keeps all its digits. Another text becomes a string, which the server refuses.
  const categoryId = /^-?(0|[1-9]\d*)$/.test(category) ? category : JSON.stringify(category);
  const status = element('status').value === '' ? '' : `,"status":"${element('status').value}"`;
  const name = JSON.stringify(element('name').value);
  const body = `{"name":${name},"categoryId":${categoryId}${status}}`;
  element('add-error').textContent = element('added').textContent = '';
  element('add').disabled = true;
  try {
    const headers = headersFor(body);
    const { body: pet } = await send('v1/pets', { method: 'POST', body, headers });
    unconfirmed.body = '';
    event.target.reset();
    element('added').textContent = `Added with the id ${pet.id}.`;
    element('name').focus();
    await showPets();
  } catch (error) {
    noteFailure(error);
    element('add-error').textContent = withLabels(error.message);
  }
  element('add').disabled = false;
});

showPets();
