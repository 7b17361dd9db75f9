// The page at `/`: asks for the key, lists the animals, adds one. The part of the address after #
// says which page is shown.
const at = (id) => document.getElementById(id);
const keyName = 'petstore-key';

/** Every number as its digits: JSON.parse would round an id beyond 2^53. */
function parseExactly(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(tokens, (token) => (token[0] === '"' ? token : `"${token}"`)));
}

/** The list, the animal or the error in a text; undefined where no petstore answers such a text. */
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

/** Says what came in place of an answer, such as the error of a proxy, or the page of a login. */
function foreignError({ type, status, headers }) {
  const [mediaType] = (headers.get('Content-Type') ?? '').split(';');
  const parts = [`status ${status}`, ...(mediaType === '' ? [] : [mediaType])];
  const what = type === 'opaqueredirect' ? 'a redirect elsewhere' : parts.join(', ');
  const from = 'It may be of a proxy or a login in front of the server.';
  return new Error(`What came is no answer of a petstore: ${what}. ${from}`);
}

/**
 * Asks the server; throws an Error with its words, and lets go of a key that is not accepted. Only
 * an error of a petstore has a `status` and a `code`.
 */
async function ask(address, { headers = {}, ...options } = {}) {
  const token = `Bearer ${sessionStorage.getItem(keyName)}`;
  const all = { Authorization: token, 'Content-Type': 'application/json', ...headers };
  let response;
  let text;
  try {
    // A petstore redirects no request of its API. A redirected POST would become a GET.
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
  at('store').hidden = true;
  at('rows').replaceChildren();
  at('key-form').hidden = false;
  at('key-error').textContent = message;
  at('key').focus();
}

/** Counts what was asked for: an answer that comes later than the next question is not shown. */
let asked = 0;

/** Shows the page that the address names after its #: the query of GET /v1/pets. */
async function showAnimals() {
  if (sessionStorage.getItem(keyName) === null) return showKeyForm();
  const turn = ++asked;
  const query = location.hash.slice(1);
  let page = { body: [], link: '' };
  let complaint = '';
  try {
    page = await ask(`v1/pets?${query}`);
  } catch (error) {
    complaint = error.message;
  }
  if (turn !== asked || sessionStorage.getItem(keyName) === null) return;
  const status = new URLSearchParams(query).get('status') ?? '';
  const next = /\?([^>]*)>; rel="next"/.exec(page.link)?.[1];
  at('list-error').textContent = complaint;
  at('rows').replaceChildren(...page.body.map(rowOf));
  at('empty').hidden = complaint !== '' || page.body.length > 0;
  at('filter').value = status;
  at('first').href = status === '' ? '#' : `#status=${status}`;
  at('first').hidden = !query.includes('after=');
  at('next').href = `#${next ?? ''}`;
  at('next').hidden = next === undefined;
  at('key-form').hidden = true;
  at('store').hidden = false;
}

/** A cell for each column of the table's head, which names the members of an animal. */
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

at('key-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const key = at('key').value.trim();
  at('key').value = '';
  // Of other texts some fit in no header: `fetch` would fail as if the server were away.
  if (!/^[!-~]+$/.test(key))
    return showKeyForm(
      'This cannot be a key: a key has only letters, digits and signs of ASCII, and no space.',
    );

  sessionStorage.setItem(keyName, key);
  at('key-error').textContent = '';
  await showAnimals();
  if (!at('store').hidden) at('animals').focus();
});

at('forget').addEventListener('click', () => showKeyForm());

at('filter').addEventListener('change', () => {
  location.hash = at('filter').value === '' ? '' : `status=${at('filter').value}`;
});

window.addEventListener('hashchange', async () => {
  await showAnimals();
  // A link that leads nowhere now is hidden: whoever pressed it begins at the heading.
  if (document.activeElement !== at('filter')) at('animals').focus();
});

/** What was sent, and its idempotency key, until it is answered: sent again, it is added once. */
let adding = { sent: '', key: '' };
/** Whether the server knows such keys. */
let keepsKeys = true;

/** The headers to add a text under. By plain HTTP, only localhost has `crypto.randomUUID`. */
function headersToAdd(sent) {
  if (!keepsKeys) return {};
  const random = crypto.getRandomValues(new Uint32Array(4)).join('-');
  if (adding.sent !== sent) adding = { sent, key: random };
  return { 'Idempotency-Key': adding.key };
}

/** Notes a refusal. One that judges no text is no answer: an earlier try may have added it. */
function noteRefusal({ status = 0, code }) {
  if (status >= 400 && status < 500 && ![401, 408, 409, 429].includes(status)) adding.sent = '';
  // Whoever reads that the server keeps no such keys, and adds again, does without.
  if (code === 'invalid_parameter') keepsKeys = false;
}

/** An integer without a plus sign or zeros in front, as JSON wants it; any other text as it is. */
function plainInteger(text) {
  return text.replace(/^(?:\+|(-))?0*(0|[1-9]\d*)$/, '$1$2');
}

/** A message that calls a field what the head of its column calls it, and not by its JSON name. */
function inWords(message) {
  let words = message;
  for (const { dataset, textContent } of document.querySelectorAll('th'))
    words = words.replaceAll(dataset.member, textContent);
  return words;
}

at('add-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const category = at('category').value.trim();
  const plain = plainInteger(category);
  if (plain !== category) {
    at('added').textContent = '';
    at('add-error').textContent = inWords(
      `categoryId has zeros or a plus sign in front; write ${plain}.`,
    );
    return;
  }

  // Digits go as they are, to the last; of anything else the server says what is wrong.
  const categoryId = /^-?(0|[1-9]\d*)$/.test(category) ? category : JSON.stringify(category);
  const status = at('status').value === '' ? '' : `,"status":"${at('status').value}"`;
  const sent = `{"name":${JSON.stringify(at('name').value)},"categoryId":${categoryId}${status}}`;
  at('add-error').textContent = at('added').textContent = '';
  at('add').disabled = true;
  try {
    const headers = headersToAdd(sent);
    const { body } = await ask('v1/pets', { method: 'POST', body: sent, headers });
    adding.sent = '';
    event.target.reset();
    at('added').textContent = `Added with the id ${body.id}.`;
    at('name').focus();
    await showAnimals();
  } catch (error) {
    noteRefusal(error);
    at('add-error').textContent = inWords(error.message);
  }
  at('add').disabled = false;
});

showAnimals();
