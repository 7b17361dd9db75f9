/** The public API of `petstore/postgres`: a storage in PostgreSQL that several servers share. */
export { databaseUrlProblem, isDatabaseUrl, wantedUrl } from './database-url.js';
export type { PostgresPool } from './driver.js';
export { untilThere, waitForDatabase } from './failures.js';
export { postgresStorage, type PostgresStorageOptions } from './postgres-storage.js';
export { type Migration, migratePostgres, migrationSql, MissingTables } from './schema.js';
export {
  postgresImport,
  postgresRecordNames,
  postgresTarget,
  seedPostgres,
} from './transfers.js';
