/** Implements the `migrate` command, which creates or updates the tables of a database. */
import { print, printNotice, refuse } from './output.js';
import type { Run } from './settings.js';
import { readStorage } from './storages.js';

/**
 * Runs `migrate [--print]`.
 *
 * @throws Refusal
 * @throws PetstoreError `storage_unusable`
 */
export const run: Run = async (settings, operands) => {
  if (operands.length > 0) refuse('`migrate` takes no operand; name the database with --storage');

  if (settings.find('--print') !== undefined) {
    const { migrationSql } = await import('../postgres/index.js');
    await print(migrationSql().split('\n'), 'the SQL');
    return;
  }

  const setting = settings.get('--storage');
  const named = await readStorage(setting);

  const hint = 'name a database, such as postgres://user:password@host:5432/database';
  // Only the URL of a database can contain a password.
  if (named?.migrate === undefined)
    refuse(`${setting.from} ${setting.text} needs no migration; ${hint}`);

  await print([await named.migrate((warning) => printNotice(`warning: ${warning}`))]);
};
