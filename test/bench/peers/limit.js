// The limit of `node:http`: the petstore's classes of requests and responses. It writes all responses of a tick
// together, each of as many bytes as the petstore's. It checks no head, path, key or body.
import { createServer } from 'node:http';
import { Exchange } from '../../../dist/http/exchange.js';
import { SilentResponse } from '../../../dist/http/node.js';

/** The bytes of the petstore's response to some targets; the others get that of a pet. A test compares the sizes. */
const bytes = new Map([
  ['/v1/pets', 1_493],
  ['/v1/pets?limit=100', 6_495],
  ['/v1/pets?status=sold', 1_487],
]);
const texts = new Map([...bytes].map(([target, size]) => [target, textOf(size)]));
const usual = textOf(389);
const added = textOf(304);

function textOf(size) {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ';
  const body = 'x'.repeat(size - head.length - 8);
  return Buffer.from(`${head}${body.length}\r\n\r\n${body}`).toString('latin1');
}

let ready = [];
function flush() {
  const leaving = ready;
  ready = [];
  for (const response of leaving) {
    const { method, url, socket } = response.req;
    socket.write(method === 'POST' ? added : (texts.get(url) ?? usual), 'latin1');
    response.finished = true;
    response.emit('finish');
  }
}

const options = {
  IncomingMessage: Exchange,
  ServerResponse: SilentResponse,
  // `Exchange` has empty headers, in which Node would look for Host.
  requireHostHeader: false,
  keepAliveTimeout: 0,
};
const server = createServer(options, (_request, response) => {
  if (ready.push(response) === 1) setImmediate(flush);
});
server.listen(0, '127.0.0.1', () => {
  console.log(
    JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }),
  );
});
