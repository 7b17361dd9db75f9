/** Owns the `migrate` command: the tables of a database. Knows no table. */
import { Refusal } from '../server/refusal.js';
import { print } from '../server/print.js';
import { printable } from '../server/printable.js';
import type { Settings } from '../server/settings.js';
import { readStorage } from '../server/storage.js';

/** Runs `migrate`. @throws Refusal for a storage that has no tables; PetstoreError `storage_unusable`. */
export async function migrate(operands: readonly string[], settings: Settings): Promise<number> {
  if (operands.length > 0) throw new Refusal('`migrate` takes no operand; name the database with --storage');
  const setting = settings.get('storage');
  const storage = readStorage(setting);
  if (storage.migrate === undefined) {
    throw new Refusal(`${setting.from} ${storage.text} needs no migration; name a database, such as postgres://user:password@host:5432/database`);
  }
  await print(`${printable(await storage.migrate())}\n`);
  return 0;
}
