// A stub made only from the OpenAPI document: openapi-backend checks requests and responds with examples. It stores
// nothing. Its argument is the URL of the document.
import express from 'express';
import { OpenAPIBackend } from 'openapi-backend';
import { host, isAllowed, problems, say } from './catalogue.js';

const refused = (status) => (_context, _request, response) =>
  response.status(status).json(problems[status]);

const definition = await (await fetch(process.argv[2])).json();
const api = new OpenAPIBackend({
  definition,
  apiRoot: '/v1',
  handlers: {
    notFound: refused(404),
    unauthorizedHandler: refused(401),
    validationFail: refused(400),
    notImplemented: ({ api, operation }, _request, response) => {
      const { status, mock } = api.mockResponseForOperation(operation.operationId);
      response.status(status).json(mock);
    },
  },
});
api.registerSecurityHandler('bearerAuth', ({ request }) =>
  isAllowed(request.headers.authorization),
);
await api.init();

const app = express();
app.use(express.json({ strict: false }));
app.use((request, response) => api.handleRequest(request, request, response));
app.use((error, _request, response, next) => {
  if (error.status === 400) response.status(400).json(problems[400]);
  else next(error);
});

const server = app.listen(0, host, () => say(server.address().port));
