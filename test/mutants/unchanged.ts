/** The mutants that change no promised behaviour, each with the reason. */
import { inspect } from 'node:util';
import { mutantOf, mutatedText, type Change, type Mutant } from './mutants.js';

interface Unchanged extends Change {
  readonly why: string;
}

/** For a change that only makes the code slower. */
const speed = 'The result is the same, and only the time differs.';
/** For a default that only the compiler needs, such as that of an item of a list. */
const neverMissing = 'The value before it is always there.';
/** A name has at most 2 ** 24 code units, each of at most six bytes of JSON. */
const noSuchText = 'No draft has so many bytes, because a name has at most 96 MiB of JSON.';

export const unchanged: readonly Unchanged[] = [
  {
    file: 'engine/catalogue.ts',
    text: 'if (guess < count && items[guess] === bound)',
    becomes: 'if (guess >= count && items[guess] === bound)',
    why: speed,
  },
  {
    file: 'engine/catalogue.ts',
    text: 'Number(bound) - Number(items[0])',
    becomes: 'Number(bound) + Number(items[0])',
    why: speed,
  },
  {
    file: 'engine/arguments.ts',
    text: "if (typeof draft !== 'object' || draft === null)",
    becomes: 'if (false || draft === null)',
    why: 'Without the check, a TypeError names the missing fields.',
  },
  {
    file: 'engine/idempotency.ts',
    text: 'if (use.at > now) {',
    becomes: 'if (use.at >= now) {',
    why: 'A use of this instant has not expired, so the method has returned before.',
  },
  {
    file: 'engine/pet-json.ts',
    text: 'json.length > maxTextBytes - ',
    becomes: 'json.length >= maxTextBytes - ',
    why: noSuchText,
  },
  {
    file: 'engine/pet-json.ts',
    text: 'maxTextBytes - \'{"id":9223372036854775807\'.length',
    becomes: 'maxTextBytes - "".length',
    why: noSuchText,
  },
  {
    file: 'errors.ts',
    text: "inspect(message)).split('\\n', 1)[0] ?? ''",
    becomes: 'inspect(message)).split(\'\\n\', 1)[0] ?? "Stryker was here!"',
    why: neverMissing,
  },
  {
    file: 'file/record-lines.ts',
    text: "members.join('')",
    becomes: 'members.join("Stryker was here!")',
    why: speed,
  },
  {
    file: 'file/record-lines.ts',
    text: 'petFields.at(-1)',
    becomes: 'petFields.at(+1)',
    why: speed,
  },
  {
    file: 'file/record-lines.ts',
    text: "inAscii.test(line) || (inUtf8.test(line) && isUtf8(Buffer.from(line, 'latin1')))",
    becomes: "inAscii.test(line) && inUtf8.test(line) && isUtf8(Buffer.from(line, 'latin1'))",
    why: speed,
  },
  {
    file: 'http/connection.ts',
    text: 'body.length <= longBodyBytes',
    becomes: 'body.length < longBodyBytes',
    why: 'A body of exactly this length is written in slices, with the same bytes.',
  },
  {
    file: 'http/deadlines.ts',
    text: 'now - this.#progress.at > maxStallMs',
    becomes: 'now - this.#progress.at >= maxStallMs',
    why: 'The check runs twice a second, so a millisecond makes no difference.',
  },
  {
    file: 'http/exchange.ts',
    text: "return this.url ?? '';",
    becomes: 'return this.url ?? "Stryker was here!";',
    why: neverMissing,
  },
  {
    file: 'http/exchange.ts',
    text: '#hasUpgrade = false;',
    becomes: '#hasUpgrade = true;',
    why: 'The value is set with the head, before it is read.',
  },
  {
    file: 'http/head.ts',
    text: 'i < rawHeaders.length; i += 2',
    becomes: 'i <= rawHeaders.length; i += 2',
    why: 'The name after the last header is undefined, so it matches no header.',
  },
  {
    file: 'http/head.ts',
    text: 'if (!/^[\\x21-\\x7e]*$/.test(target))',
    becomes: 'if (false)',
    why: 'Node’s parser refuses such a target first, although its documentation does not say so.',
  },
  {
    file: 'http/guest-request.ts',
    text: "request.method ?? ''",
    becomes: 'request.method ?? "Stryker was here!"',
    why: neverMissing,
  },
  {
    file: 'http/node.ts',
    text: "if (text === '') reset();",
    becomes: 'if (false) reset();',
    why: 'Nothing is written, and the reset follows the bytes that were written before.',
  },
  {
    file: 'http/port.ts',
    text: '/^Max open files +(\\d+)/m',
    becomes: '/Max open files +(\\d+)/m',
    why: 'Linux prints this text in one line only.',
  },
  {
    file: 'http/wire.ts',
    text: 'rest.length + part.length - at >= sliceBytes',
    becomes: 'rest.length + part.length - at > sliceBytes',
    why: 'The last slice is written after the loop instead.',
  },
  {
    file: 'http/wire.ts',
    text: 'this.#bytes > maxUnsentBytes;',
    becomes: 'this.#bytes >= maxUnsentBytes;',
    why: 'The contract does not promise the last byte of 64 MiB.',
  },
  {
    file: 'journal/file-lock.ts',
    text: "'utf8').catch(() => '')",
    becomes: '\'utf8\').catch(() => "Stryker was here!")',
    why: 'Neither text contains a line about a lock.',
  },
  {
    file: 'journal/file-lock.ts',
    text: 'if (lockFlags === 0 && ',
    becomes: 'if (true && ',
    why: 'On Linux the value is always 0.',
  },
  {
    file: 'journal/lines.ts',
    text: "text[at + 4] === '\"'",
    becomes: 'false',
    why: speed,
  },
  {
    file: 'journal/line-chunks.ts',
    text: 'end < 2 ? 0 :',
    becomes: 'false ? 0 :',
    why: 'An empty line matches no pattern, and there is no line before it.',
  },
  {
    file: 'journal/lines.ts',
    text: "text[at + 4] === '\"'",
    becomes: 'text[at + 4] === ""',
    why: speed,
  },
  {
    file: 'json.ts',
    text: 'byte >= 0x20 && byte < 0x80',
    becomes: 'byte > 0x20 && byte < 0x80',
    why: speed,
  },
  { file: 'json.ts', text: 'let isAscii = true;', becomes: 'let isAscii = false;', why: speed },
  { file: 'json.ts', text: 'let isEscaped = false;', becomes: 'let isEscaped = true;', why: speed },
  {
    file: 'json.ts',
    text: '/^-?[0-9]+$/.test(number)',
    becomes: '/^-?[^0-9]+$/.test(number)',
    why: speed,
  },
  {
    file: 'json.ts',
    text: "this.#fail(byte < 0x20 ? 'a control",
    becomes: "this.#fail(byte <= 0x20 ? 'a control",
    why: 'This code never gets a space.',
  },
  {
    file: 'json.ts',
    text: "text.startsWith('\\\\u') ?",
    becomes: 'text.startsWith("") ?',
    why: speed,
  },
  {
    file: 'json.ts',
    text: "}\"`) : '';",
    becomes: '}"`) : "Stryker was here!";',
    why: 'Any well-formed text has the same effect.',
  },
  {
    file: 'json.ts',
    text: "const [, sign = '',",
    becomes: 'const [, sign = "Stryker was here!",',
    why: neverMissing,
  },
  {
    file: 'paging.ts',
    text: 'query.length > maxKeptQuery',
    becomes: 'query.length >= maxKeptQuery',
    why: speed,
  },
  {
    file: 'paging.ts',
    text: 'if (!isRepeated && this.#pages.size === maxKeptQueries)',
    becomes: 'if (!isRepeated || this.#pages.size === maxKeptQueries)',
    why: speed,
  },
  {
    file: 'paging.ts',
    text: 'this.#pages.size === maxKeptQueries',
    becomes: 'this.#pages.size !== maxKeptQueries',
    why: speed,
  },
  {
    file: 'paging.ts',
    text: 'bytes + text.length + 1, 1) > 65_536',
    becomes: 'bytes + text.length + 1, 1) >= 65_536',
    why: speed,
  },
  {
    file: 'pet.ts',
    text: 'const read = json === undefined ? undefined',
    becomes: 'const read = false ? undefined',
    why: 'No field reads undefined as a value.',
  },
  {
    file: 'service/hooks.ts',
    text: 'if (this.#wrappers.length === 0) {',
    becomes: 'if (false) {',
    why: speed,
  },
  {
    file: 'service/hooks.ts',
    text: 'if (this.#makers.length === 0)',
    becomes: 'if (false)',
    why: speed,
  },
  {
    file: 'postgres/schema.ts',
    text: '/^(23505|42P07|42710|XX000|40001|40P01)$/',
    becomes: '/(23505|42P07|42710|XX000|40001|40P01)$/',
    why: 'An SQLSTATE has five characters.',
  },
  {
    file: 'postgres/transfers.ts',
    text: "(parsePet(json).status ?? '') : ''",
    becomes: '(parsePet(json).status ?? \'\') : "Stryker was here!"',
    why: 'The table of records has no statuses.',
  },
  {
    file: 'postgres/connections.ts',
    text: '/^(25006|42P01|3F000|42501|0A000)$/',
    becomes: '/^(25006|42P01|3F000|42501|0A000)/',
    why: 'An SQLSTATE has five characters.',
  },
  {
    file: 'postgres/table-reader.ts',
    text: 'performance.now() > endAt',
    becomes: 'performance.now() >= endAt',
    why: 'The contract does not promise the exact millisecond.',
  },
  {
    file: 'postgres/batch-writer.ts',
    text: "keyUse: { key: randomUUID(), body: '', at: 0 }",
    becomes: 'keyUse: { key: randomUUID(), body: "Stryker was here!", at: 0 }',
    why: 'A rehearsal stores nothing, whatever its body.',
  },
  {
    file: 'reply.ts',
    text: 'Object.getPrototypeOf(error) === PetstoreError.prototype && Object.isFrozen(error)',
    becomes: 'false',
    why: speed,
  },
  {
    file: 'reply.ts',
    text: "if (basePath === '/v1' || ",
    becomes: 'if (basePath === "" || ',
    why: speed,
  },
  {
    file: 'request.ts',
    text: 'target.replace(/^https?:\\/\\/[^/?]*\\/?/i',
    becomes: 'target.replace(/https?:\\/\\/[^/?]*\\/?/i',
    why: 'A target with a text before http:// is not a known path in either case.',
  },
  {
    file: 'request.ts',
    text: 'if (queryAt < 0)',
    becomes: 'if (queryAt <= 0)',
    why: 'No path begins with a question mark.',
  },
];

/**
 * Returns the mutants that are not in this list.
 * @throws Error if Stryker has not made a change of the list, because the source has changed
 */
export function harmfulOf(made: readonly Mutant[]): readonly Mutant[] {
  const harmless = new Set<Mutant>();
  for (const change of unchanged) {
    const own = mutantOf(change);
    const text = mutatedText(own);
    const overlaps = ({ file, from, to }: Mutant): boolean =>
      file === own.file && from < own.to && to > own.from;
    const same = made.filter((mutant) => overlaps(mutant) && mutatedText(mutant) === text);
    if (same.length === 0)
      throw new Error(`Stryker does not make this change of unchanged.ts: ${inspect(change)}`);
    for (const mutant of same) harmless.add(mutant);
  }
  return made.filter((mutant) => !harmless.has(mutant));
}
