/**
 * What one would write by hand on node:http and pg, for `pages.ts` to compare with: `node
 * hand-written.ts URL`. It checks a key and answers pages by id, from a statement that is prepared;
 * nothing else.
 */
import { createServer } from 'node:http';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.argv[2], max: 10 });
const key = `Bearer ${process.env['PETSTORE_API_KEYS']}`;
const text =
  'SELECT id, name, category_id, status FROM hand_written WHERE id > $1 ORDER BY id LIMIT $2';

const server = createServer(async (request, response) => {
  if (request.headers.authorization !== key) {
    response.writeHead(401).end();
    return;
  }
  const { searchParams } = new URL(request.url ?? '', 'http://localhost');
  const [after, limit] = [Number(searchParams.get('after')), Number(searchParams.get('limit'))];
  const { rows } = await pool.query({ name: 'page', text, values: [after, limit + 1] });
  const pets = rows.slice(0, limit).map((row) => ({
    id: Number(row.id),
    name: row.name,
    categoryId: Number(row.category_id),
    ...(row.status !== null && { status: row.status }),
  }));
  const body = JSON.stringify(pets);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  const link = `</v1/pets?limit=${limit}&after=${pets.at(-1)?.id}>; rel="next"`;
  response.writeHead(200, rows.length > limit ? { ...headers, Link: link } : headers).end(body);
}).listen(0, '127.0.0.1', () => {
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  process.stdout.write(
    `${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${port}` })}\n`,
  );
});
process.on('SIGTERM', () => process.exit(0));
