/** The plugin `docs`: serves a page with the pets at `/`, and Swagger UI at `/docs`. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { petFields, petStatuses, toByteString, type Plugin, type Reply } from '../index.js';
import { readPageFiles } from './page/index.js';

/** Allows only scripts and styles of this server, and no frames, because users type keys here. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Swagger UI, without scripts, because a dependency's install script sends usage data. */
const install = 'npm install --ignore-scripts swagger-ui-dist@5';

type Replies = Readonly<Record<string, Reply>>;

/**
 * Serves the pages and their files without a key. If `swagger-ui-dist` is not installed, the page
 * at `/docs` and a warning in the log say how to install it.
 */
export function docsPlugin(): Plugin {
  const files = readPageFiles();
  const fileOf = (name: string): string => files.get(name) ?? '';

  const library = libraryReplies(fileOf);
  // The script of Swagger UI's page is served below `/docs`.
  const scripts = [...files].filter(([name]) => /^(?!docs\.).*\.js$/.test(name));
  const replies: Replies = {
    '/': textReply('html', petsPage(fileOf('index.html'))),
    '/page/style.css': textReply('css', fileOf('style.css')),
    ...Object.fromEntries(
      scripts.map(([name, text]) => [`/page/${name}`, textReply('javascript', text)]),
    ),
    ...(library ?? missingReplies(fileOf)),
  };

  return ({ route, log }) => {
    if (library === undefined)
      log('warn', 'the page /docs needs a package that is not installed', { install });

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

/** Returns Swagger UI's page with its files; undefined if the library is not installed. */
function libraryReplies(fileOf: (name: string) => string): Replies | undefined {
  const folder = libraryFolder();
  if (folder === undefined) return undefined;

  // Browsers keep Swagger UI, which has 1.9 MB, for a day.
  const cacheControl = 'public, max-age=86400';
  const libraryFile = (type: string, name: string): Reply => ({
    ...textReply(type, readFileSync(`${folder}/${name}`, 'utf8')),
    cacheControl,
  });

  return {
    ...docsReplies(fileOf('docs.html')),
    '/docs/start.css': textReply('css', fileOf('docs.css')),
    '/docs/start.js': textReply('javascript', fileOf('docs.js')),
    '/docs/swagger-ui.css': libraryFile('css', 'swagger-ui.css'),
    '/docs/swagger-ui-bundle.js': libraryFile('javascript', 'swagger-ui-bundle.js'),
  };
}

/** Returns the page that says how to install Swagger UI. */
function missingReplies(fileOf: (name: string) => string): Replies {
  return docsReplies(fileOf('docs-missing.html').replace('<!-- install -->', install));
}

/** Returns a page at `/docs` and at `/docs/`. */
function docsReplies(page: string): Replies {
  // The page's links, such as `docs/start.js`, are relative to `/`; here, to `/docs/`.
  const below = page.replace(/(href|src)="(?!data:)([^"]*)"/g, '$1="../$2"');
  return { '/docs': textReply('html', page), '/docs/': textReply('html', below) };
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

/**
 * Returns the page at `/`, with a column for each field after the id and an option for each status.
 * The columns of texts have the class `text`, because texts may be long. Each option has its value,
 * because a browser that translates the page changes the text.
 */
function petsPage(page: string): string {
  const columns = petFields.map(({ name, type }) => {
    const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    const kind = type.schema['type'] === 'string' ? ' class="text"' : '';
    return `<th scope="col" role="columnheader" data-member="${name}"${kind}>${words}</th>`;
  });
  const options = petStatuses.map((status) => `<option value="${status}">${status}</option>`);
  return page
    .replace('<!-- columns -->', columns.join(''))
    .replaceAll('<!-- statuses -->', options.join(''));
}

/** Returns the folder of Swagger UI; undefined if it is not installed. */
function libraryFolder(): string | undefined {
  try {
    return dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  } catch {
    return undefined;
  }
}
