// The petstore with one INSERT a request, so that only the storage differs. Its arguments: the URL of the database, and
// the number of connections of its pool.
import pg from 'pg';
import { createPetstore } from '../../../dist/index.js';
import { host, say } from './catalogue.js';

const [connectionString, connections] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString, max: Number(connections) });
await pool.query(
  'CREATE TABLE IF NOT EXISTS single_pets (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, category_id int8 NOT NULL, status text)',
);
const petstore = createPetstore({
  keys: [process.env.PETSTORE_API_KEYS],
  storage: {
    durable: true,
    insert: async (draft) => {
      const values = [draft.name, draft.categoryId, draft.status];
      const { rows } = await pool.query(
        'INSERT INTO single_pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING id',
        values,
      );
      return { ...draft, id: BigInt(rows[0].id) };
    },
    get: async () => undefined,
    list: async () => [],
    close: () => pool.end(),
  },
});
const { port } = await petstore.listen({ port: 0, host });
say(port);
