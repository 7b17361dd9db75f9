// The reference: node:http with one fixed response of 80 bytes; no routing, no key, no parsing.
import { createServer } from 'node:http';

const body = '{"id":1,"name":"Rex, whose body is eighty.","categoryId":5,"status":"available"}';
const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length };

const server = createServer((_request, response) => {
  response.writeHead(200, headers);
  response.end(body);
});
server.listen(0, '127.0.0.1', () => {
  console.log(
    JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }),
  );
});
