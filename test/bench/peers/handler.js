// The petstore under `http.createServer`, as frameworks use it.
import { createServer } from 'node:http';
import { createPetstore } from '../../../dist/index.js';

const { handler } = createPetstore({ keys: [process.env.PETSTORE_API_KEYS] });
const server = createServer(handler);
server.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  console.log(JSON.stringify({ msg: 'listening', url }));
});
