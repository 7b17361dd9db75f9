/** Owns the `copy` command: all animals of one storage into another, and what plugins keep beside them. Knows neither of them. */
import { copyPets, copyRecords, type CopyReport, type CopyTarget } from '../index.js';
import { jsonLog } from '../server/json-log.js';
import { print } from '../server/print.js';
import { printable } from '../server/printable.js';
import { Refusal } from '../server/refusal.js';
import type { Settings } from '../server/settings.js';
import { readStorage, type NamedStorage } from '../server/storage.js';
import { Progress } from './progress.js';

/**
 * Runs `copy --from STORAGE --to STORAGE`. Cut off, it goes on where it was when it is run again.
 * @throws Refusal for what was named; PetstoreError `storage_…` for what is in there.
 */
export async function copy(operands: readonly string[], settings: Settings): Promise<number> {
  const [from, to] = [named(settings, 'from'), named(settings, 'to')];
  if (operands.length > 0 || from === undefined || to === undefined)
    throw new Refusal('`copy` needs --from STORAGE and --to STORAGE, such as file:data/pets.jsonl');
  const { openToCopy, openTarget } = to;
  if (openToCopy === undefined || openTarget === undefined) throw new Refusal(`--to ${to.text} would forget what is copied; use file:PATH or a database`);
  if (from.openToCopy === undefined) throw new Refusal(`--from ${from.text} holds nothing to copy; use file:PATH or a database`);
  if (from.place === to.place) throw new Refusal(`--from ${from.text} and --to ${to.text} are the same; name another to copy to`);
  // Opening it would make it.
  if (from.isThere?.() === false) throw new Refusal(`--from ${from.text} is not there; name a storage that is`);
  const progress = new Progress(process.stderr);
  const log = jsonLog(process.stderr);
  const target: CopyTarget = { open: () => openToCopy(log), openTarget };
  const source = await from.openToCopy(log);
  try {
    const tell = async ({ count, present, sha256 }: CopyReport, things: string): Promise<void> => {
      progress.clear();
      const before = present === 0 ? '' : `, ${present} of them before`;
      await print(`${printable(`${count} ${things} of ${from.text} are in ${to.text}${before}; SHA-256 of both ${sha256}`)}\n`);
    };
    await tell(await copyPets(source, target, (...step) => progress.show(...step)), 'animals');
    for (const name of await from.recordNames(log)) await tell(await copyRecords(name, source, target, (...step) => progress.show(...step, name)), name);
  } finally {
    progress.clear();
    await source.close();
  }
  return 0;
}

function named(settings: Settings, name: 'from' | 'to'): NamedStorage | undefined {
  const setting = settings.find(name);
  return setting && readStorage(setting);
}
