// The script of the page at `/docs`, which shows this server's OpenAPI document in Swagger UI. The
// key is that of the page at `/`.
import { mapNumbers } from '../page/exact-json.js';
import { KeptTexts, keyName } from '../page/kept.js';

/** The security scheme of the OpenAPI document. */
const schemeName = 'bearerAuth';

const kept = new KeptTexts(() => sessionStorage);

/**
 * Indents JSON and keeps all digits of its numbers, because JSON.parse rounds over 2^53.
 * @param {string} text
 */
function indented(text) {
  // A lone surrogate, which no response contains, marks a number.
  const marked = mapNumbers(text, (digits) => `"\\ud800${digits}"`);
  return JSON.stringify(JSON.parse(marked), null, 2).replace(/"\\ud800([^"]*)"/g, '$1');
}

/**
 * What this page uses of Swagger UI.
 * @typedef {(component: unknown, props: object, child?: string) => unknown} CreateElement
 * @typedef {{ React: { createElement: CreateElement },
 *   getComponent: (name: string, isContainer: boolean) => unknown }} System
 * @typedef {{ contentType: string, content: unknown }} ResponseProps
 * @typedef {Readonly<Record<string, { readonly value: string } | undefined>>} Credentials
 * @typedef {{ preauthorizeApiKey: (scheme: string, key: string) => void }} SwaggerUi
 */

/**
 * Shows JSON with all digits of its numbers.
 * @param {System} system
 */
const exactResponses = ({ React, getComponent }) => ({
  wrapComponents: {
    responseBody: (/** @type {unknown} */ Original) => (/** @type {ResponseProps} */ props) => {
      const { contentType, content } = props;
      if (!/json/.test(contentType) || typeof content !== 'string')
        return React.createElement(Original, props);
      const shown = {
        language: 'json',
        downloadable: true,
        fileName: 'response.json',
        canCopy: true,
      };
      return React.createElement(getComponent('HighlightCode', true), shown, indented(content));
    },
  },
});

/** @typedef {(payload: unknown) => unknown} Action */

/** Keeps the key as the page at `/` does, until "Logout" or "Forget the key". */
const keptKey = {
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (/** @type {Action} */ original) => (/** @type {Credentials} */ credentials) => {
          const key = credentials[schemeName]?.value;
          if (key !== undefined) kept.set(keyName, key);
          return original(credentials);
        },
        logout: (/** @type {Action} */ original) => (/** @type {unknown} */ names) => {
          kept.remove(keyName);
          return original(names);
        },
      },
    },
  },
};

const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();

// Earlier versions kept the key there, without an end.
try {
  localStorage.removeItem('authorized');
} catch {
  // The browser blocks its storage, so no key is there.
}

const here = import.meta.url;
const spec = await (await fetch(new URL('../openapi.json', here))).json();
// Other deployments are left out, because the page's policy allows requests to this server only.
const isThisServer = (/** @type {{ url: string }} */ { url }) =>
  new URL(url, here).origin === location.origin;
// Swagger UI would send the example with every pet, and the second pet would be refused (C57).
for (const header of spec.paths['/pets'].post.parameters) delete header.example;
/** @type {SwaggerUi} */
const ui = Reflect.get(
  window,
  'SwaggerUIBundle',
)({
  dom_id: '#ui',
  spec: { ...spec, servers: spec.servers.filter(isThisServer) },
  plugins: [exactResponses, keptKey],
  // By default the page would send the document to a public validator.
  validatorUrl: null,
  onComplete: () => {
    const key = kept.get(keyName);
    if (key !== undefined) ui.preauthorizeApiKey(schemeName, key);
  },
});
