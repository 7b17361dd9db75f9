/** The plugin `docs`: serves a page with the pets at `/`, and Swagger UI at `/docs`. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { codeOf, petFields, petStatuses, toByteString, type Plugin, type Reply } from '../index.js';

/** Allows only scripts and styles of this server, and no frames, because users type keys here. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Serves the pages and their files without a key.
 *
 * @throws Error with the `code` of Node's error if `swagger-ui-dist` is not installed
 */
export function docsPlugin(): Plugin {
  const page = fileURLToPath(new URL('../../src/plugins/page/', import.meta.url));
  const library = libraryFolder();
  const docs = readFileSync(`${page}docs.html`, 'utf8');
  // Browsers keep Swagger UI, which has 1.9 MB, for a day.
  const cacheControl = 'public, max-age=86400';

  const replies: Readonly<Record<string, Reply>> = {
    '/': textReply('html', petsPage(`${page}index.html`)),
    '/page/style.css': fileReply('css', `${page}style.css`),
    '/page/script.js': fileReply('javascript', `${page}script.js`),
    '/docs': textReply('html', docs),
    // The page's links, such as `docs/start.js`, are relative to `/`; here, to `/docs/`.
    '/docs/': textReply('html', docs.replaceAll('docs/', '')),
    '/docs/start.js': fileReply('javascript', `${page}docs.js`),
    '/docs/swagger-ui.css': { ...fileReply('css', `${library}/swagger-ui.css`), cacheControl },
    '/docs/swagger-ui-bundle.js': {
      ...fileReply('javascript', `${library}/swagger-ui-bundle.js`),
      cacheControl,
    },
  };

  return ({ route }) => {
    for (const [path, reply] of Object.entries(replies))
      route({
        path,
        methods: {
          GET: {
            handler: ({ lacksSlash, basePath }) => (lacksSlash ? slashReply(basePath) : reply),
          },
        },
      });
  };
}

/** Redirects from the mount path to the same path with a slash, so that links work (C58). */
function slashReply(basePath: string): Reply {
  return { status: 308, headers: ['Location', basePath.replace(/(\/v1)?$/, '/')] };
}

function textReply(type: string, text: string): Reply {
  return {
    status: 200,
    headers: ['Content-Security-Policy', policy],
    contentType: `text/${type}; charset=utf-8`,
    body: toByteString(text),
  };
}

function fileReply(type: string, path: string): Reply {
  return textReply(type, readFileSync(path, 'utf8'));
}

/**
 * Returns the page at `/`, with a column for each field after the id and an option for each status.
 * The columns of texts have the class `text`, because texts may be long.
 */
function petsPage(path: string): string {
  const columns = petFields.map(({ name, type }) => {
    const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    const kind = type.schema['type'] === 'string' ? ' class="text"' : '';
    return `<th scope="col" data-member="${name}"${kind}>${words}</th>`;
  });
  const options = petStatuses.map((status) => `<option>${status}</option>`);
  return readFileSync(path, 'utf8')
    .replace('<!-- columns -->', columns.join(''))
    .replaceAll('<!-- statuses -->', options.join(''));
}

function libraryFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  } catch (cause) {
    const hint = 'npm install --ignore-scripts swagger-ui-dist@5';
    const error = new Error(`docsPlugin needs a package that is not installed: ${hint}`, { cause });
    // The command line recognises a missing package by the code.
    throw Object.assign(error, { code: codeOf(cause) });
  }
}
