// The rows of the table: a cell for each member of a pet. Texts of over three lines are clamped.

/** @import { PetTexts } from './requests.js' */

/** The part of a long text that a clamped cell holds, because laying out 8 MiB takes seconds. */
const longestStart = 1_000;

/** The texts of the clamped cells. @type {WeakMap<HTMLElement, string>} */
const wholeTexts = new WeakMap();

/** True if no character of a text is visible, as of spaces and U+200B. */
export const isBlank = (/** @type {string} */ text) => /^[\s\p{DI}\u2800]*$/u.test(text);

/**
 * Returns a row with a cell for each column. The head of the table names the members of a pet.
 * @param {HTMLTableElement} table
 * @param {PetTexts} pet
 */
export function rowOf(table, pet) {
  const row = document.createElement('tr');
  row.setAttribute('role', 'row');
  row.tabIndex = -1;
  for (const { className, dataset, textContent } of table.querySelectorAll('th')) {
    const cell = row.insertCell();
    const member = dataset['member'] ?? '';
    const text = pet[member];
    cell.setAttribute('role', 'cell');
    cell.className = className;
    cell.dataset['label'] = textContent;
    if (text === undefined) continue;

    const span = document.createElement('span');
    span.dir = 'auto';
    span.textContent = startOf(text);
    if (member === 'status') span.dataset['status'] = text;
    if (className === 'text') {
      wholeTexts.set(span, text);
      span.toggleAttribute('data-blank', isBlank(text));
    }
    cell.append(span);
  }
  return row;
}

/**
 * Returns the text, or its start if it is long. No character of two units is cut in half.
 * @param {string} text
 */
function startOf(text) {
  if (text.length <= longestStart) return text;
  return `${text.slice(0, longestStart).replace(/[\ud800-\udbff]$/, '')}…`;
}

/**
 * Clamps each text of over three lines, and gives it a button that shows all of it.
 * @param {HTMLTableElement} table
 */
export function clampTexts(table) {
  const spans = [...table.querySelectorAll('td.text > span:not(.whole)')].filter(
    (span) => span instanceof HTMLElement,
  );
  for (const span of spans) span.classList.remove('clamped');
  // All are measured before one is changed, so that the browser lays out the table once.
  const isLong = spans.map((span) => {
    const line = Number.parseFloat(getComputedStyle(span).lineHeight);
    return span.getBoundingClientRect().height > 3.5 * line;
  });
  for (const [index, span] of spans.entries()) {
    span.classList.toggle('clamped', isLong[index]);
    const button = span.nextElementSibling;
    if (isLong[index] && button === null) span.after(moreButton(span));
    if (!isLong[index]) button?.remove();
  }
}

/**
 * Returns a button that shows all of a text, or its first three lines again.
 * @param {HTMLElement} span
 */
function moreButton(span) {
  const text = wholeTexts.get(span) ?? '';
  const button = document.createElement('button');
  const show = (/** @type {boolean} */ isWhole) => {
    span.textContent = isWhole ? text : startOf(text);
    span.className = isWhole ? 'whole' : 'clamped';
    // A text that scrolls must be within reach of the keyboard.
    if (isWhole && text.length > longestStart) span.tabIndex = 0;
    else span.removeAttribute('tabindex');
    button.textContent = isWhole ? 'Show less' : 'Show all';
    button.setAttribute('aria-expanded', String(isWhole));
  };
  button.type = 'button';
  button.className = 'more';
  button.addEventListener('click', () => show(button.ariaExpanded !== 'true'));
  show(false);
  return button;
}
