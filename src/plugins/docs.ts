/** Owns the page at `/docs` that shows the OpenAPI document and tries it out: Swagger UI, all of it from this machine. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { toByteString, type Operation, type Plugin } from '../index.js';

const [html, css, script] = ['text/html; charset=utf-8', 'text/css; charset=utf-8', 'text/javascript; charset=utf-8'];

/** Addresses are relative, so that the page works wherever a framework mounts the petstore. */
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Petstore</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<div id="ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</html>
`;
// Without validatorUrl the page would send the document to a validator out there.
const start = `SwaggerUIBundle({ dom_id: '#ui', url: 'openapi.json', validatorUrl: null });\n`;

/** Nothing but our own files runs or is asked, and nobody frames a page where a key is typed in. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Serves the page and what it loads, without a key; trying an operation out needs one, as ever.
 * @throws Error where `swagger-ui-dist` is not installed.
 */
export function docsPlugin(): Plugin {
  const library = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const file = (name: string) => readFile(join(library, name), 'latin1');
  return ({ route }) => {
    route({ path: '/docs', methods: { GET: serve(html, () => toByteString(page)) } });
    route({ path: '/docs/start.js', methods: { GET: serve(script, () => toByteString(start)) } });
    route({ path: '/docs/swagger-ui.css', methods: { GET: serve(css, () => file('swagger-ui.css')) } });
    route({ path: '/docs/swagger-ui-bundle.js', methods: { GET: serve(script, () => file('swagger-ui-bundle.js')) } });
  };
}

function serve(contentType: string, body: () => string | Promise<string>): Operation {
  return { handler: async () => ({ status: 200, headers: ['Content-Security-Policy', policy], contentType, body: await body() }) };
}
