/** The changes of Node's HTTP library that R16 tries. */
/** A change: a module of Node's library, a text in it, and the replacement. */
export type NodeChange = readonly [module: string, from: string, to: string];

const readablePush = 'require("stream").Readable.prototype.push.call(stream,';
const isParseError = 'socketOnError.call(socket, ret);\n  } else if (parser.incoming';

/** Changes that a later version of Node may contain. The keys complete "a Node that …". */
export const nodeChanges: Readonly<Record<string, NodeChange>> = {
  'makes responses of its own class': [
    '_http_server',
    'new server[kServerResponse](req',
    'new ServerResponse(req',
  ],
  'does not set `complete`': ['_http_common', 'stream.complete = true;', ''],
  'stores bodies without `push`': [
    '_http_common',
    'const ret = stream.push(b);',
    `const ret = ${readablePush} b);`,
  ],
  'ends bodies without `push`': ['_http_common', 'stream.push(null);', `${readablePush} null);`],
  'ends requests without a body later': [
    '_http_common',
    'stream.push(null);',
    'if (stream.headers["content-length"]) stream.push(null); ' +
      'else queueMicrotask(() => stream.push(null));',
  ],
  'renames `httpAllowHalfOpen`': [
    '_http_server',
    '!server.httpAllowHalfOpen',
    '!server.kAllowHalfOpen',
  ],
  'closes after a response without a head': [
    '_http_server',
    'if (res._last) {',
    'if (res._last || !res._headerSent) {',
  ],
  'has other error codes': [
    '_http_server',
    isParseError,
    `ret.code = 'ERR_PARSE'; ${isParseError}`,
  ],
  'has another code for late requests': [
    '_http_server',
    'new ERR_HTTP_REQUEST_TIMEOUT()',
    'Object.assign(new Error("late"), { code: "ERR_LATE" })',
  ],
  'has no timers': [
    '_http_server',
    'function checkConnections() {',
    'function checkConnections() { return;',
  ],
  'takes every connection for late': [
    '_http_server',
    'this[kConnections].expired(',
    'this[kConnections].all(',
  ],
  'does not resume sockets': ['_http_common', 'readStart(parser.socket);', ''],
  'stops reading after a chunk': ['_http_common', 'if (!ret)', 'if (ret)'],
  'asks the stream if it has ended': [
    '_http_server',
    'if (req.readableEnded)',
    'if (req._readableState.endEmitted)',
  ],
  'ignores the option `IncomingMessage`': [
    '_http_server',
    'this[kIncomingMessage] = options.IncomingMessage || IncomingMessage;',
    'this[kIncomingMessage] = IncomingMessage;',
  ],
  'stops pausing its parser': ['_http_server', "socket.on('pause', onSocketPause);", ''],
  'keeps its listeners of a response': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!res._headerSent) socket.on("x", () => res);',
  ],
  'keeps unsent responses': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!res._headerSent) (server.kept ||= []).push(res);',
  ],
  'emits requests later': [
    '_http_server',
    "server.emit('request', req, res);",
    "process.nextTick(() => server.emit('request', req, res));",
  ],
  'times idle sockets out': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!server.keepAliveTimeout) socket.setTimeout(2000);',
  ],
  'hides if a connection stays open': [
    '_http_server',
    'res.shouldKeepAlive = keepAlive;',
    'res._keepsAlive = keepAlive;',
  ],
  'has a lenient parser': [
    '_http_server',
    'parser.initialize(',
    'parser.initialize = (type, owner, size, _strict, list) => ' +
      'HTTPParser.prototype.initialize.call(parser, type, owner, size, 255, list); ' +
      'parser.initialize(',
  ],
  'does not notice that a socket has drained': [
    '_http_server',
    "socket.on('drain', state.onDrain);",
    '',
  ],
  'closes connections whose request was not read': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!req.complete) socket.destroy();',
  ],
  'keeps requests that nobody has read': [
    '_http_server',
    'state.incoming.shift();',
    'state.incoming.shift(); setImmediate(() => ' +
      '{ if (!req._readableState.endEmitted) (socket.kept ||= []).push(req); });',
  ],
  'keeps responses without their requests': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); ' +
      'if (!res._header) { res.req = null; (server.kept ||= []).push(res); }',
  ],
  'keeps closed sockets': [
    '_http_server',
    'freeParser(socket.parser, null, socket);',
    'freeParser(socket.parser, null, socket); (socket.server.kept ||= []).push(socket);',
  ],
  'ignores a `finished` that is set': [
    '_http_outgoing',
    'this.finished = false;',
    'this._isFinished = false; if (!("finished" in OutgoingMessage.prototype)) ' +
      'Object.defineProperty(OutgoingMessage.prototype, "finished", { ' +
      'get() { return this._isFinished; }, ' +
      'set(value) { if (this._header) this._isFinished = value; } });',
  ],
  'emits an error on requests of a client that left': [
    '_http_incoming',
    "if (self.listenerCount('error') === 0) {",
    'if (false) {',
  ],
  'drops half of the headers': [
    '_http_server',
    'server.maxHeadersCount << 1',
    'server.maxHeadersCount',
  ],
  'says nothing about malformed requests': [
    '_http_common',
    "if (typeof err.reason === 'string')",
    'delete err.reason; delete err.bytesParsed; if (false)',
  ],
  'closes sockets after malformed requests': [
    '_http_server',
    "if (!this.server.emit('clientError', e, this)) {",
    "if (this.server.emit('clientError', e, this)) process.nextTick(() => this.destroy()); else {",
  ],
  'gives its sockets to the parser for ever': [
    '_http_server',
    "socket.on = generateSocketListenerWrapper('on');",
    '',
  ],
  'refuses requests without a Host by itself': [
    '_http_server',
    'if (server.requireHostHeader && req.headers.host',
    'if (req.headers.host',
  ],
  'drops requests of a client that closed its sending side': [
    '_http_server',
    'socket._httpMessage._last = true;',
    'if (state.incoming[0]?._readableState.endEmitted === false) socket.destroySoon(); ' +
      'else socket._httpMessage._last = true;',
  ],
  'keeps responses that were sent past it': [
    '_http_server',
    'res.detachSocket(socket);',
    'if (res._headerSent) res.detachSocket(socket);',
  ],
  'has its own maximum size of a head': ['_http_server', 'server.maxHeaderSize || 0', '20_000'],
  'gives the bytes of a body as a Uint8Array': [
    '_http_common',
    'const ret = stream.push(b);',
    'const ret = stream.push(new Uint8Array(b));',
  ],
  'writes 100 Continue to the response by itself': [
    '_http_server',
    "server.emit('checkContinue', req, res);",
    "res.writeContinue(); server.emit('checkContinue', req, res);",
  ],
  'cuts the packets of malformed requests': [
    '_http_common',
    'rawPacket || parser.getCurrentBuffer();',
    '(rawPacket || parser.getCurrentBuffer()).subarray(0, 64);',
  ],
  'adds trailers to the headers': [
    '_http_common',
    'stream._addHeaderLines(headers, headers.length);',
    'stream.rawHeaders.push(...headers);',
  ],
  'skips the bodies of GET': [
    '_http_common',
    'return parser.onIncoming(incoming, shouldKeepAlive);',
    "const skips = incoming.method === 'GET'; " +
      'return parser.onIncoming(incoming, shouldKeepAlive) || (skips ? 1 : 0);',
  ],
  'destroys half-closed sockets in the middle of a body': [
    '_http_server',
    'socketOnError.call(socket, ret);',
    'socket.destroy();',
  ],
  'keeps requests with Expect': [
    '_http_server',
    'res._expect_continue = true;',
    'res._expect_continue = true; (server.kept ||= []).push(req);',
  ],
  'keeps headers': [
    '_http_server',
    'state.incoming.shift();',
    'state.incoming.shift(); (server.kept ||= []).push(req.rawHeaders);',
  ],
  'adds a listener to the server for each request': [
    '_http_server',
    'state.incoming.shift();',
    "state.incoming.shift(); server.setMaxListeners(0).on('x', () => 1);",
  ],
};

/** The changes that users do not notice, so that the self-check passes. */
export const harmlessChanges: ReadonlySet<string> = new Set([
  'makes responses of its own class',
  'does not set `complete`',
  'has another code for late requests',
  'does not resume sockets',
  'asks the stream if it has ended',
  'emits requests later',
  'times idle sockets out',
  'hides if a connection stays open',
  'emits an error on requests of a client that left',
  'keeps responses that were sent past it',
  'adds trailers to the headers',
]);
