// json-server 0.17 on an object in memory, with its defaults, after checks of the key, the body and the limit.
import jsonServer from 'json-server';
import { host, isAllowed, isDraft, pageOf, problems, say } from './catalogue.js';

const server = jsonServer.create();
server.use(jsonServer.defaults({ logger: false }));
server.use(jsonServer.bodyParser);

server.use((request, response, next) => {
  const refusal = !isAllowed(request.get('authorization'))
    ? 401
    : isFine(request)
      ? undefined
      : 400;
  if (refusal === undefined) next();
  else response.status(refusal).json(problems[refusal]);
});

server.use('/v1', jsonServer.router({ pets: [] }));
const listener = server.listen(0, host, () => say(listener.address().port));

function isFine(request) {
  if (request.method === 'POST') return isDraft(request.body);
  const { limit, ...rest } = request.query;
  // json-server calls the limit `_limit`.
  request.query = { ...rest, ...(request.path === '/v1/pets' && { _limit: limit ?? '20' }) };
  return pageOf({ limit, status: rest.status }) !== undefined;
}
