/** The public API of `petstore/postgres`: animals in PostgreSQL, for which the package `pg` is needed. */
export type { PostgresClient, PostgresPool, PostgresQuery } from './storage/postgres/pool.js';
export { isMigrated, migratePostgres, postgresRecordNames, postgresStorage, postgresTarget, type PostgresStorageOptions } from './storage/postgres/storage.js';
