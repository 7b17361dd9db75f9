/**
 * Loaded by `node --expose-internals --require` into a server: compiles Node's own HTTP library with
 * one text replaced, as the variable CHANGED_NODE says.
 */
'use strict';
const http = require('node:http');
const { syncBuiltinESMExports } = require('node:module');
const { compileFunction } = require('node:vm');
const { internalBinding, primordials } = require('internal/test/binding');

const [file, from, to] = JSON.parse(process.env.CHANGED_NODE);
const { natives } = internalBinding('builtins');
const changed = new Map();

/** Returns a module of Node's library; the HTTP server's own modules are compiled anew. */
function load(name) {
  if (!['_http_common', '_http_incoming', '_http_outgoing', '_http_server'].includes(name))
    return require(name);
  const known = changed.get(name);
  if (known !== undefined) return known.exports;

  const source = natives[name];
  if (name === file && !source.includes(from)) throw new Error(`CHANGED_NODE: no ${from} in ${name}`);
  const text = name === file ? source.replace(from, () => to) : source;
  const parameters = ['exports', 'require', 'module', 'process', 'internalBinding', 'primordials'];
  const module = { exports: {} };
  changed.set(name, module);
  const run = compileFunction(text, parameters, { filename: `changed:${name}` });
  run(module.exports, load, module, process, internalBinding, primordials);
  return module.exports;
}

const { Server, ServerResponse } = load('_http_server');
const { IncomingMessage } = load('_http_incoming');
const { OutgoingMessage } = load('_http_outgoing');
Object.assign(http, {
  createServer: (options, listener) => new Server(options, listener),
  Server,
  ServerResponse,
  IncomingMessage,
  OutgoingMessage,
});
syncBuiltinESMExports();
