// The script of the page at `/docs`, which shows this server's OpenAPI document in Swagger UI.
/** Indents JSON and keeps all digits of its numbers, because JSON.parse rounds over 2^53. */
function indented(text) {
  // A lone surrogate, which no response contains, marks a number.
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const marked = text.replace(tokens, (token) => (token[0] === '"' ? token : `"\\ud800${token}"`));
  return JSON.stringify(JSON.parse(marked), null, 2).replace(/"\\ud800([^"]*)"/g, '$1');
}

const exactResponses = ({ React, getComponent }) => ({
  wrapComponents: {
    responseBody: (Original) => (props) => {
      if (!/json/.test(props.contentType) || typeof props.content !== 'string')
        return React.createElement(Original, props);
      const shown = {
        language: 'json',
        downloadable: true,
        fileName: 'response.json',
        canCopy: true,
      };
      return React.createElement(
        getComponent('HighlightCode', true),
        shown,
        indented(props.content),
      );
    },
  },
});

const script = document.currentScript.src;
fetch(new URL('../openapi.json', script))
  .then((response) => response.json())
  .then((spec) => {
    // Other deployments are left out, because the page's policy allows requests to this server only.
    const isThisServer = ({ url }) => new URL(url, script).origin === location.origin;
    // By default the page would send the document to a public validator.
    SwaggerUIBundle({
      dom_id: '#ui',
      spec: { ...spec, servers: spec.servers.filter(isThisServer) },
      plugins: [exactResponses],
      persistAuthorization: true,
      validatorUrl: null,
    });
  });
