// The petstore on better-sqlite3 (WAL, synchronous=FULL), so that only the storage differs. Its arguments: the path of
// the database, and `batched` for one transaction for all waiting inserts, as the file storage does it.
import Database from 'better-sqlite3';
import { checkDraft, createPetstore, toByteString } from '../../../dist/index.js';
import { host, say } from './catalogue.js';

const [path, mode] = process.argv.slice(2);
const database = new Database(path);
database.pragma('journal_mode = WAL');
database.pragma('synchronous = FULL');
database.exec(
  'CREATE TABLE pets (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, categoryId INTEGER NOT NULL, status TEXT)',
);
const insertion = database.prepare('INSERT INTO pets (name, categoryId, status) VALUES (?, ?, ?)');

function insert({ name, categoryId, status }) {
  const id = BigInt(insertion.run(name, categoryId, status ?? null).lastInsertRowid);
  const members = `"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${status === undefined ? '' : `,"status":"${status}"`}`;
  return { id, json: toByteString(`{${members}}`) };
}

const insertAll = database.transaction((drafts) => drafts.map(insert));
let waiting = [];

function commitWaiting() {
  const batch = waiting;
  waiting = [];
  const texts = insertAll(batch.map(({ draft }) => draft));
  for (const [index, { resolve }] of batch.entries()) resolve(texts[index]);
}

function insertWithOthers(draft) {
  return new Promise((resolve) => {
    if (waiting.push({ draft, resolve }) === 1) setImmediate(commitWaiting);
  });
}

// Only inserts are measured.
const texts = {
  insert: async (draft) => {
    checkDraft(draft);
    return mode === 'batched' ? insertWithOthers(draft) : insert(draft);
  },
  get: async () => undefined,
  list: async () => ({ texts: [] }),
};
const storage = {
  durable: true,
  texts,
  insert: () => Promise.reject(new Error('only insertText is used')),
  get: async () => undefined,
  list: async () => [],
  close: async () => database.close(),
};

const petstore = createPetstore({ keys: [process.env.PETSTORE_API_KEYS], storage });
const { port } = await petstore.listen({ port: 0, host });
say(port);
