// The page at `/docs`: Swagger UI over this server's document.
/**
 * Text of JSON, indented, each number with the digits that it came with: JSON.parse rounds those
 * beyond 2^53.
 */
function indented(text) {
  // A lone surrogate marks what was a number: no answer of the server has one.
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const marked = text.replace(tokens, (token) => (token[0] === '"' ? token : `"\\ud800${token}"`));
  return JSON.stringify(JSON.parse(marked), null, 2).replace(/"\\ud800([^"]*)"/g, '$1');
}

const exactAnswers = ({ React, getComponent }) => ({
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
    // Other deployments are not offered: no key of theirs is typed in here, and the page's policy
    // lets nobody else be asked.
    const isOurs = ({ url }) => new URL(url, script).origin === location.origin;
    // Without validatorUrl the page would send the document to a validator out there.
    SwaggerUIBundle({
      dom_id: '#ui',
      spec: { ...spec, servers: spec.servers.filter(isOurs) },
      plugins: [exactAnswers],
      persistAuthorization: true,
      validatorUrl: null,
    });
  });
