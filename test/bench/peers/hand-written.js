// A server written by hand on node:http and pg: it checks a key and serves pages by id, from a prepared statement, and
// nothing else. Its argument is the URL of the database.
import { createServer } from 'node:http';
import pg from 'pg';
import { host, isAllowed, say } from './catalogue.js';

const pool = new pg.Pool({ connectionString: process.argv[2], max: 10 });
const text =
  'SELECT id, name, category_id, status FROM hand_written WHERE id > $1 ORDER BY id LIMIT $2';

const server = createServer(async (request, response) => {
  if (!isAllowed(request.headers.authorization)) {
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
}).listen(0, host, () => say(server.address().port));
