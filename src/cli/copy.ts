/** Implements the `copy` command, which copies a durable storage to another one. */
import { copyRecords } from '../index.js';
import { countOf, logTo, print, refuse, showProgress } from './output.js';
import type { Run } from './settings.js';
import { readStorage } from './storages.js';

/**
 * Runs `copy`: copies the pets, then the records of plugins.
 *
 * @throws Refusal
 * @throws PetstoreError `storage_…`
 */
export const run: Run = async (settings, operands) => {
  const from = settings.find('--from');
  const to = settings.find('--to');

  const source = from && (await readStorage(from));
  const target = to && (await readStorage(to));
  if (operands.length > 0 || source === undefined || target === undefined)
    refuse(
      '`copy` needs --from STORAGE and --to STORAGE, each file:PATH or a database, not memory:; ' +
        'in the environment: PETSTORE_FROM and PETSTORE_TO',
    );

  if (source.place === '') refuse(`--from ${source.text} does not exist; name an existing storage`);
  if (source.place === target.place)
    refuse(`--from ${source.text} and --to ${target.text} are the same; name two storages`);

  const log = logTo(process.stderr);
  const opened = await source.open('copy', log);
  const copyTarget = { open: () => target.open('copy', log), openTarget: target.openTarget };

  /** Copies a plugin's records of this name, or the pets if it is omitted, and prints a line. */
  const copyAll = async (name?: string) => {
    const words = (count: number) =>
      name === undefined ? countOf(count, 'pet') : `${count} ${name}`;

    const { count, present, sha256 } = await copyRecords(name, opened, copyTarget, (what, done) =>
      showProgress(`${what} ${words(done)}`),
    );
    showProgress('');

    const copied = `${words(count)} of ${source.text} copied to ${target.text}`;
    const before = present === 0 ? '' : `, ${present} of them already there`;
    await print([`${copied}${before}; SHA-256 of both ${sha256}`]);
  };

  try {
    await copyAll();
    for (const name of await source.recordNames(log)) await copyAll(name);
  } finally {
    showProgress('');
    await opened.close();
  }
};
