/** The public API of `petstore/postgres`: animals in PostgreSQL, for which the package `pg` is needed. */
export { isMigrated, migratePostgres, postgresRecordNames, postgresTarget } from './storage/postgres/administer.js';
export type { PostgresClient, PostgresPool, PostgresQuery } from './storage/postgres/pool.js';
export { postgresSource } from './storage/postgres/source.js';
export { postgresStorage, type PostgresStorageOptions } from './storage/postgres/storage.js';
