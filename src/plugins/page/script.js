// The script of the page at `/`, which lists and adds pets with a key that the user enters.
import { Adding, bodyOf, plainInteger } from './adding.js';
import { addCommand, listCommand } from './curl.js';
import { Download } from './download.js';
import { KeptTexts, keyName } from './kept.js';
import { Place } from './place.js';
import { RequestError, send } from './requests.js';
import { clampTexts, isBlank, rowOf } from './rows.js';

/** @import { Attempt } from './adding.js' */
/** @import { Found, PetTexts } from './requests.js' */

/**
 * Returns an element of the page.
 * @template {HTMLElement} Kind
 * @param {string} id
 * @param {new () => Kind} kind
 */
function find(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no #${id}`);
  return found;
}

const element = (/** @type {string} */ id) => find(id, HTMLElement);
const button = (/** @type {string} */ id) => find(id, HTMLButtonElement);
const input = (/** @type {string} */ id) => find(id, HTMLInputElement);
const select = (/** @type {string} */ id) => find(id, HTMLSelectElement);
const link = (/** @type {string} */ id) => find(id, HTMLAnchorElement);
const dialog = find('dialog', HTMLDialogElement);
const table = document.querySelector('table') ?? document.createElement('table');

const kept = new KeptTexts(() => sessionStorage);
const adding = new Adding(kept);

/** @param {string} title */
function setTitle(title) {
  document.title = `${title} · petstore`;
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Sends a request with the key. A key that the server refuses is forgotten.
 * @param {string} address
 * @param {Parameters<typeof send>[2]} [options]
 */
async function request(address, options) {
  const key = kept.get(keyName);
  try {
    return await send(key ?? '', address, options);
  } catch (error) {
    // The user may have entered another key meanwhile.
    const isRefused = error instanceof RequestError && error.status === 401;
    if (isRefused && key === kept.get(keyName)) showKeyForm(error.message);
    throw error;
  }
}

/** Asks a question, and resolves to true if the answer is yes. */
async function isConfirmed(/** @type {string} */ text) {
  element('dialog-text').textContent = text;
  dialog.returnValue = 'no';
  dialog.showModal();
  await new Promise((close) => dialog.addEventListener('close', close, { once: true }));
  return dialog.returnValue === 'yes';
}

// The key

function showKeyForm(message = '') {
  kept.remove(keyName);
  stopDownload();
  added = undefined;
  element('added').textContent = '';
  element('store').hidden = true;
  element('forget').hidden = true;
  element('rows').replaceChildren();
  element('new').replaceChildren();
  element('key-form').hidden = false;
  element('key-error').textContent = message;
  setTitle('API key');
  input('key').focus();
}

element('key-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const key = input('key').value.trim();
  input('key').value = '';
  // Other characters may be invalid in a header, and `fetch` would fail as if the server were down.
  if (!/^[!-~]+$/.test(key))
    return showKeyForm(
      'This is not a valid key: a key has only visible ASCII characters, without spaces.',
    );

  element('memory').hidden = kept.set(keyName, key);
  for (const id of ['key-error', 'list-error', 'add-error']) element(id).textContent = '';
  await showPets();
  if (!element('store').hidden) element('pets').focus();
});

element('forget').addEventListener('click', () => showKeyForm());

// The list

/** The number of lists requested. Only the response to the latest request is shown. */
let listCount = 0;
/** The pet that was added last. @type {PetTexts | undefined} */
let added;

/** Shows the list whose query is in the URL after #. */
async function showPets() {
  if (kept.get(keyName) === undefined) return showKeyForm();
  const listNumber = ++listCount;
  const place = new Place(location.hash);
  /** @type {Found} */
  let page = { text: '', body: [], next: undefined };
  let complaint = '';
  element('list').setAttribute('aria-busy', 'true');
  try {
    page = await request(`v1/pets?${place.query}`);
  } catch (error) {
    complaint = messageOf(error);
  }
  if (listNumber !== listCount) return;
  element('list').setAttribute('aria-busy', 'false');
  if (kept.get(keyName) === undefined) return;

  const pets = Array.isArray(page.body) ? page.body : [];
  element('key-form').hidden = true;
  element('store').hidden = false;
  element('forget').hidden = false;
  setTitle(place.title);
  showRows(place, pets);
  showLinks(place, page.next);
  element('list-error').textContent = complaint;
  element('again').hidden = complaint === '';
  element('summary').textContent = complaint === '' ? summaryOf(place, pets) : '';
  select('filter').value = place.status;
  showForm();
}

/**
 * @param {Place} place
 * @param {readonly PetTexts[]} pets
 */
function showRows(place, pets) {
  const marked = place.pet ?? added?.['id'];
  const rows = pets.map((pet) => {
    const row = rowOf(table, pet);
    if (pet['id'] === marked) row.setAttribute('aria-current', 'true');
    return row;
  });
  element('rows').replaceChildren(...rows);
  const isElsewhere = added !== undefined && !pets.some(({ id }) => id === added?.['id']);
  element('new').replaceChildren(
    ...(added !== undefined && isElsewhere ? [rowOf(table, added)] : []),
  );
  table.hidden = rows.length === 0 && !isElsewhere;
  clampTexts(table);
}

/**
 * Returns what the list shows, for the status line.
 * @param {Place} place
 * @param {readonly PetTexts[]} pets
 */
function summaryOf(place, pets) {
  const [first, last] = [pets[0]?.['id'], pets.at(-1)?.['id']];
  const missing = place.pet !== undefined && place.pet !== first;
  const start = missing ? `There is no pet with the id ${place.pet}. ` : '';
  const where = place.isFirst && place.status === '' ? 'yet' : 'on this page';
  if (pets.length === 0) return `${start}There are no pets ${where}.`;
  const count = pets.length === 1 ? '1 pet' : `${pets.length} pets`;
  return `${start}${count}, ${first === last ? `id ${first}` : `ids ${first} to ${last}`}`;
}

/**
 * Shows where the list goes on.
 * @param {Place} place
 * @param {string | undefined} next The query of the next page, if there is one.
 */
function showLinks(place, next) {
  const { trail = [] } = Object(history.state);
  const previous = place.isFirst ? undefined : (trail.at(-1) ?? place.guessedPrevious);
  showLink('first', place.isFirst ? undefined : place.first, []);
  showLink('previous', previous, trail.slice(0, -1));
  showLink('next', next, [...trail, place.hash].slice(-500));
}

/** The pages before the page that a link leads to. @type {Record<string, readonly string[]>} */
const trails = {};

/**
 * @param {string} id
 * @param {string | undefined} hash Undefined if there is no such page.
 * @param {readonly string[]} trail
 */
function showLink(id, hash, trail) {
  link(id).hidden = hash === undefined;
  link(id).href = `#${hash ?? ''}`;
  trails[id] = trail;
}

for (const id of ['first', 'previous', 'next'])
  link(id).addEventListener('click', async (event) => {
    // With a modifier the browser opens a tab of its own.
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    await goTo(link(id).hash, trails[id]);
    focusList();
  });

/**
 * Shows another page of the list, from which the browser's Back leads here.
 * @param {string} hash
 * @param {readonly string[]} trail The hashes of the pages before it.
 */
async function goTo(hash, trail = []) {
  history.pushState({ trail }, '', `#${hash.replace(/^#/, '')}`);
  await showPets();
}

/** Moves the focus to the pet that is looked for, else to the heading. */
function focusList() {
  if (element('store').hidden) return;
  const { pet } = new Place(location.hash);
  const row = pet === undefined ? null : document.querySelector('#rows [aria-current]');
  if (row instanceof HTMLElement) row.focus();
  else element('pets').focus();
}

window.addEventListener('hashchange', async () => {
  await showPets();
  // The link that was followed may be hidden now.
  if (document.activeElement !== select('filter')) focusList();
});

element('again').addEventListener('click', async () => {
  await showPets();
  focusList();
});

select('filter').addEventListener(
  'change',
  () => void goTo(new Place(location.hash).filtered(select('filter').value)),
);

element('find-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const text = input('find').value.trim();
  const hash = new Place(location.hash).at(plainInteger(text));
  element('list-error').textContent =
    hash === undefined
      ? `An id is a whole number from 1 to 9223372036854775807, not “${text}”.`
      : '';
  if (hash === undefined) return;
  await goTo(hash);
  focusList();
});

element('to-form').addEventListener('click', () =>
  (shown === undefined ? input('name') : button('finish')).focus(),
);

let tableWidth = 0;
new ResizeObserver(([entry]) => {
  const width = entry?.contentRect.width ?? 0;
  if (width === tableWidth) return;
  tableWidth = width;
  clampTexts(table);
}).observe(table);

// The form

const fieldNames = /** @type {const} */ (['name', 'category', 'status']);

/** @param {'name' | 'category' | 'status'} name */
const field = (name) => (name === 'status' ? select(name) : input(name));

const fieldsNow = () => ({
  name: input('name').value,
  category: input('category').value.trim(),
  status: select('status').value,
});

const attemptNow = () => adding.attemptFor(fieldsNow(), kept.get(keyName) ?? '');

/** The pending add that is shown. @type {Attempt | undefined} */
let shown;

/** Shows the state of the form, and a pending add unless the error has just told it. */
function showAdding() {
  const isInFlight = adding.state.is === 'in flight';
  button('add').disabled = isInFlight;
  const now = attemptNow();
  const isTold = element('add-error').textContent !== '';
  shown = isInFlight ? undefined : adding.pending.findLast((each) => each !== now || !isTold);
  element('pending').hidden = shown === undefined;
  element('pending-text').textContent = shown === undefined ? '' : factOf(shown, now);
  element('restore').hidden = shown === now;
  element('to-form').textContent = shown === undefined ? 'Add a pet' : 'Unfinished add';
  element('to-form').className = shown === undefined ? '' : 'main';
}

/**
 * Returns what is known of a pending add.
 * @param {Attempt} attempt
 * @param {Attempt} now What Add would send.
 */
function factOf(attempt, now) {
  const { name } = attempt.fields;
  // The isolates keep the direction of the name to the name.
  const short = `\u2068${name.replace(/^(.{40}).+/su, '$1…')}\u2069`;
  const isEdited = attempt !== now && now.body !== bodyOf({ name: '', category: '', status: '' });
  const start = isEdited ? 'The text has changed, so Add starts a new add. ' : '';
  const fact = `An earlier add has no outcome: the pet “${short}” may have been added.`;
  return `${start}${fact} Finish it to find out; that adds no second pet.`;
}

/** Shows the state of the form and its command. */
function showForm() {
  showAdding();
  showCommands();
}

/** Shows the commands that do the same as the list and the form. */
function showCommands() {
  const url = (/** @type {string} */ path) => new URL(path, location.href).href;
  const { query } = new Place(location.hash);
  element('list-curl').textContent = listCommand(url(`v1/pets${query === '' ? '' : `?${query}`}`));
  const { body, key } = attemptNow();
  element('add-curl').textContent = addCommand(url('v1/pets'), body, key);
}

/**
 * Writes the texts of an attempt into the form.
 * @param {Attempt} attempt
 */
function restore({ fields }) {
  for (const name of fieldNames) field(name).value = fields[name];
}

/** Replaces the JSON names of fields in a message by the names in the head of the table. */
function withLabels(/** @type {string} */ message) {
  let text = message;
  for (const { dataset, textContent } of document.querySelectorAll('th'))
    text = text.replaceAll(dataset['member'] ?? '', textContent);
  return text;
}

/** @param {string} text */
function complain(text) {
  element('added').textContent = '';
  element('add-error').textContent = withLabels(text);
}

/**
 * Sends an attempt, and shows its outcome.
 * @param {Attempt} attempt
 */
async function add(attempt) {
  const { body, key, fields } = attempt;
  const risk = adding.riskOf(attempt, kept.get(keyName) ?? '');
  const question = `${risk} So a second pet may be added. Look for the pet in the list first.`;
  if (risk !== undefined && !(await isConfirmed(question))) return;

  const focused = document.activeElement;
  adding.begin(attempt);
  complain('');
  showAdding();
  try {
    const headers = key === '' ? {} : { 'Idempotency-Key': key };
    const found = await request('v1/pets', { method: 'POST', body, headers });
    showAdded(/** @type {PetTexts} */ (found.body), fields);
  } catch (error) {
    showFailure(error, attempt);
  }
  showForm();
  // A button that is disabled loses the focus.
  const isLost = document.activeElement === document.body || document.activeElement === focused;
  if (isLost && !element('store').hidden)
    (adding.state.is === 'done' ? input('name') : button('add')).focus();
  if (adding.state.is === 'done') await showPets();
}

/**
 * Ends an add that is done. What was typed meanwhile stays.
 * @param {PetTexts} pet
 * @param {import('./adding.js').Fields} fields
 */
function showAdded(pet, fields) {
  const { id } = pet;
  if (typeof id !== 'string') throw new RequestError('The response is not from a petstore.');
  adding.settle({ id });
  added = pet;
  const now = fieldsNow();
  for (const name of fieldNames) if (now[name] === fields[name]) field(name).value = '';
  const anchor = document.createElement('a');
  anchor.href = `#${new Place(location.hash).at(id) ?? ''}`;
  anchor.textContent = id;
  element('added').replaceChildren('Added with the id ', anchor, '.');
}

/**
 * Ends an add that failed.
 * @param {unknown} error
 * @param {Attempt} attempt
 */
function showFailure(error, { key }) {
  const failure = error instanceof RequestError ? error : new RequestError(messageOf(error));
  adding.settle(failure);
  const next =
    adding.state.is !== 'unknown'
      ? []
      : key === ''
        ? ['The pet may have been added. Look for it in the list.']
        : [
            'The pet may have been added. Press Add again to find out; that adds no second pet.',
            adding.isKept
              ? ''
              : 'Do not reload this page before, because the browser cannot keep the add.',
          ];
  complain([failure.message, ...next].filter(Boolean).join(' '));
}

element('add-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const { name, category } = fieldsNow();
  const plain = plainInteger(category);
  if (plain !== category)
    return complain(`categoryId has leading zeros or a plus sign; write ${plain}.`);

  const attempt = attemptNow();
  const question = 'The name is blank. A pet cannot be changed or deleted later.';
  if (isBlank(name) && !attempt.isUnsure && !(await isConfirmed(question))) {
    input('name').focus();
    return;
  }
  await add(attempt);
});

element('add-form').addEventListener('input', () => {
  if (adding.pending.length > 0) element('add-error').textContent = '';
  showForm();
});

element('finish').addEventListener('click', () => {
  if (shown !== undefined) void add(shown);
});

element('restore').addEventListener('click', () => {
  if (shown !== undefined) restore(shown);
  showForm();
  button('add').focus();
});

element('drop').addEventListener('click', () => {
  if (shown !== undefined) adding.forget(shown);
  showForm();
  input('name').focus();
});

// The download, and the copies of commands

/** The download that is not complete. @type {Download | undefined} */
let download;
let stopping = new AbortController();

function stopDownload() {
  stopping.abort();
  download = undefined;
}

/** @param {number} count */
const petsOf = (count) => `${count.toLocaleString('en')} ${count === 1 ? 'pet' : 'pets'}`;

/** Resolves after a time, or when the download is stopped. */
function wait(/** @type {number} */ seconds) {
  const { signal } = stopping;
  return new Promise((resolve) => {
    setTimeout(resolve, 1_000 * seconds);
    signal.addEventListener('abort', resolve);
  });
}

element('download').addEventListener('click', async () => {
  stopping = new AbortController();
  const { signal } = stopping;
  const current = (download ??= new Download());
  const say = (/** @type {string} */ text) => void (element('progress').textContent = text);
  button('download').disabled = true;
  element('stop').hidden = false;
  try {
    const file = await current.run({
      request: (query) => request(`v1/pets?${query}`, { signal }),
      wait: async (seconds) => {
        say(`${petsOf(current.count)}; the server asks to wait ${seconds} s.`);
        await wait(seconds);
      },
      onPage: () => say(`${petsOf(current.count)} so far…`),
    });
    save(file, 'pets.jsonl');
    say(`${petsOf(current.count)} in pets.jsonl.`);
    button('download').textContent = 'Download all';
    download = undefined;
  } catch (error) {
    const isStopped = signal.aborted;
    say(
      isStopped
        ? 'Stopped; nothing was saved.'
        : `${petsOf(current.count)}, then: ${messageOf(error)}`,
    );
    button('download').textContent = isStopped ? 'Download all' : 'Go on with the download';
  }
  button('download').disabled = false;
  element('stop').hidden = true;
});

element('stop').addEventListener('click', () => {
  stopDownload();
  button('download').focus();
});

/**
 * Lets the browser save a file.
 * @param {Blob} file
 * @param {string} name
 */
function save(file, name) {
  const anchor = document.createElement('a');
  anchor.href = URL.createObjectURL(file);
  anchor.download = name;
  anchor.click();
  // The browser needs the address until the file is saved.
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60_000);
}

/**
 * Copies the text of an element. Without HTTPS or localhost, `navigator.clipboard` is missing.
 * @param {HTMLElement} source
 */
async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return document.execCommand('copy');
  }
}

for (const copyButton of document.querySelectorAll('[data-copies]'))
  copyButton.addEventListener('click', async () => {
    if (!(copyButton instanceof HTMLElement)) return;
    const isCopied = await copy(element(copyButton.dataset['copies'] ?? ''));
    copyButton.textContent = isCopied ? 'Copied' : 'Press Ctrl+C';
    setTimeout(() => void (copyButton.textContent = 'Copy'), 2_000);
  });

const [last] = adding.pending.slice(-1);
if (last !== undefined) restore(last);
// On a phone the offer to finish an add is below the list. A button that is hidden gets no focus.
void showPets().then(() => button('finish').focus());
