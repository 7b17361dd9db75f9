/** Owns storages in PostgreSQL for tests of something else. */
import type { PetStorage } from '../../dist/index.js';
import { postgresStorage } from '../../dist/postgres/index.js';
import { newDatabase } from './database.js';

/** An empty storage in a schema of its own, of few connections. */
export async function emptyPostgresStorage(): Promise<PetStorage> {
  return postgresStorage(await newDatabase(), { maxConnections: 4 });
}
