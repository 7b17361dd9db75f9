/**
 * The public API of `petstore/postgres`: the storage in a PostgreSQL database, which several
 * servers may share.
 */
export {
  type Migration,
  migratePostgres,
  MissingTables,
  postgresImport,
  postgresRecordNames,
  postgresTarget,
  seedPostgres,
  untilThere,
} from './administer.js';
export { type PostgresPool, wantedUrl } from './driver.js';
export { postgresStorage, type PostgresStorageOptions } from './postgres-storage.js';
