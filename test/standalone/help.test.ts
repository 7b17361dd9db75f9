// Tests the groups of the help, suggestions for misspelt words, and warnings of unknown variables.
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { serverFile } from '../support/process.js';
import {
  commandNames,
  testInFolder,
  testRefusal,
  testRefusals,
} from '../support/working-folder.js';

describe('the help', { concurrency: 4 }, () => {
  testInFolder('shows the commands in groups, each with an example that is valid', async (here) => {
    const { stdout } = await here.done('--help');
    const groups = [...stdout.matchAll(/^(\w+):\n((?: {2}.*\n)+?) {2}Example:\n {4}(.*)\n\n/gm)];
    assert.deepEqual(
      groups.map(([, name]) => name),
      ['Serve', 'Keys', 'Data', 'Verify'],
    );
    for (const [, , rows = '', example = ''] of groups) {
      assert.match(rows, /^ {2}[a-z]+/);
      const [command = ''] = /(?<=^node dist\/server\.js )[a-z]+/.exec(example) ?? [];
      assert.ok(command === '' || rows.includes(`  ${command} `), example);
    }
    const rows = groups.map(([, , text]) => text).join('');
    for (const name of commandNames) assert.match(rows, new RegExp(`^  ${name} `, 'm'));
  });

  testInFolder(
    'of serve is that of a start, with plugins, signals and exit codes',
    async (here) => {
      const { stdout } = await here.done('help serve');
      for (const part of ['Plugins', 'Signals', 'Exit codes', 'Examples'])
        assert.match(stdout, new RegExp(`^${part}.*:\\n  `, 'm'));
      assert.match(stdout, /^ {2}faults {3}/m);
      await here.prints('serve -h', stdout);
    },
  );

  testInFolder('has bold headings on a terminal, and elsewhere with FORCE_COLOR', async (here) => {
    const bold = '\u001b[1mUsage:\u001b[0m';
    const onTerminal = async (env: Readonly<NodeJS.ProcessEnv>) =>
      (await here.onTerminal('--help', env).ended).stdout;
    assert.ok((await onTerminal({ TERM: 'xterm' })).includes(bold));
    const plain = [{ TERM: 'dumb' }, { NO_COLOR: '1' }, { FORCE_COLOR: '0' }];
    for (const env of [...plain, { NO_COLOR: '1', FORCE_COLOR: '1' }])
      assert.ok(!(await onTerminal({ TERM: 'xterm', ...env })).includes('\u001b'));

    assert.ok(!(await here.done('--help')).stdout.includes('\u001b'));
    assert.ok((await here.done('FORCE_COLOR=1 --help')).stdout.includes(bold));
    assert.ok(!(await here.done('FORCE_COLOR=1 NO_COLOR=1 --help')).stdout.includes('\u001b'));
  });
});

describe('a suggestion', { concurrency: 4 }, () => {
  testRefusals({
    start: /^unknown command start; did you mean serve\?$/m,
    version: /^unknown command version; did you mean --version\?$/m,
    list: /did you mean keys list\?$/m,
    Import: /did you mean import\?$/m,
    chekc: /did you mean check\?$/m,
    verfiy: /did you mean verify\?$/m,
    nothing: /^unknown command nothing; --help lists all$/m,
    '--Port 1': /did you mean --port\?$/m,
    '--hsot x': /did you mean --host\?$/m,
    '--cert x': /did you mean --tls-cert\?$/m,
    '--log-level x': /did you mean --log\?$/m,
    '--storgae=x': /did you mean --storage\?$/m,
    '-p 1': /^unknown flag -p; did you mean --port or --plugin\?$/m,
    '-V': /did you mean -v\?$/m,
    'verify --url x': /^unknown flag --url; --help lists all$/m,
    'keys add --expire 3d': /did you mean --expires\?$/m,
    'keys rm x': /, not rm; did you mean revoke\?$/m,
    'keys create x': /did you mean add\?$/m,
    'keys nothing': /, not nothing$/m,
    'keys revoke x --keys-file new.json': /`node dist\/server\.js keys list --keys-file FILE`/,
    'verify --list --only c7,s1': /did you mean C7,S1\?$/m,
    'verify --list --only c999': /not "c999"$/m,
    '--storage file:': /host:5432\/name$/m,
    '--log request': /"request"; did you mean requests\?$/m,
    '--log-format jsno': /did you mean json\?$/m,
    '--log debug': /not "debug"$/m,
    'PETSTORE_LOG=slient': /^PETSTORE_LOG must be .* did you mean silent\?$/m,
    '--node-interface auot': /did you mean auto\?$/m,
    '--storage memory': /did you mean memory:\?$/m,
    '--storage data/pets.jsonl': /did you mean file:data\/pets\.jsonl\?$/m,
    '--storage postgress://ann:secret@db/pets': /did you mean postgres:\?$/m,
    '--storage redis://ann:secret@db': /host:5432\/name$/m,
    '--plugin metrix': /orders; did you mean metrics\?$/m,
    '--plugin faults,metrics': /orders; give --plugin for each plugin$/m,
    '--host localhost:3000': /^--host must be .*, without a port, not "localhost:3000"$/m,
    'verify 127.0.0.1:3000 --key a': /did you mean http:\/\/127\.0\.0\.1:3000\?$/m,
    'verify http://127.0.0.1:9 --key a --level ful': /did you mean full\?$/m,
    'verify http://127.0.0.1:9 --key a --format jsonl': /did you mean json\?$/m,
    'import . --storage file:a.jsonl': /^\. cannot be read \(it is a folder\); name a JSON Lines/,
    '--keys-file new.json': /make it with `node dist\/server\.js keys add NAME --keys-file FILE`/,
  });
  // The message does not compare a word of any length.
  testRefusal([`--port${'t'.repeat(100)}`], /--help lists all$/m);
});

describe('a PETSTORE_ variable', { concurrency: 4 }, () => {
  for (const [name, hint] of [
    ['PETSTORE_STORGE', 'did you mean PETSTORE_STORAGE?'],
    ['PETSTORE_API_KEY', 'did you mean PETSTORE_API_KEYS?'],
    ['PETSTORE_PORT', 'did you mean PORT?'],
    ['PETSTORE_HSOT', 'did you mean HOST?'],
    ['PETSTORE_LOG_LEVEL', 'did you mean PETSTORE_LOG?'],
    ['petstore_log', 'did you mean PETSTORE_LOG?'],
    ['PETSTORE_TLS', 'did you mean PETSTORE_TLS_CERT or PETSTORE_TLS_KEY?'],
    ['PETSTORE_XYZZY', '`node dist/server.js help COMMAND` lists the variables of a command'],
  ] as const)
    testInFolder(`is named in a warning if it is unknown: ${name}`, async (here) => {
      const warning = `warning: the variable ${name} is unknown, so it is ignored; ${hint}\n`;
      for (const line of ['keys list --json', '--version']) {
        const shell = here.shell(`exec "$0" "$1" ${line}`, { [name]: 'secret' });
        const { code, stderr } = await shell.ended;
        assert.deepEqual([code, stderr], [0, warning], line);
      }
    });

  testInFolder('is named by a server too, before it listens', async (here) => {
    const server = await here.start('--storage memory:', { PETSTORE_DRIAN: '5' });
    assert.match(server.stderr, /^warning: .*PETSTORE_DRIAN .*did you mean PETSTORE_DRAIN\?\n$/);
  });

  testInFolder('is not named if it is empty, known, or set by Kubernetes', async (here) => {
    const { code, stderr } = await here.shell('exec "$0" "$1" keys list --json', {
      PETSTORE_STORGE: '',
      PETSTORE_SELF_CHECK: '1',
      PETSTORE_PLUGINS: 'docs',
      PETSTORE_SERVICE_HOST: '10.0.0.1',
      PETSTORE_SERVICE_PORT: '80',
      PETSTORE_SERVICE_PORT_HTTP: '80',
      PETSTORE_PORT: 'tcp://10.0.0.1:80',
      PETSTORE_PORT_80_TCP: 'tcp://10.0.0.1:80',
      PETSTORE_PORT_80_TCP_ADDR: '10.0.0.1',
      PETSTORE_DB_PORT_5432_TCP_PROTO: 'tcp',
    }).ended;
    assert.deepEqual([code, stderr], [0, '']);
  });

  testInFolder('is one of at most ten in the warnings', async (here) => {
    const names = Array.from({ length: 50 }, (_, index) => [`PETSTORE_N${index}`, 'x']);
    const shell = here.shell('exec "$0" "$1" keys list --json', Object.fromEntries(names));
    assert.equal((await shell.ended).stderr.split('\n').length, 11);
  });
});

describe('progress', () => {
  const pets = '{"name":"a","categoryId":1}\n'.repeat(5_000);
  for (const [columns, bar] of [
    ['200', /\r(?:checking|adding) \[[#-]{30}\] \d+% \d+ pets/],
    ['40', /\r(?:checking|adding) \[[#-]{6}\] \d+% \d+ pets/],
    ['30', /\r(?:checking|adding) \d+% \d+ pets/],
  ] as const)
    testInFolder(`fits a terminal of ${columns} columns`, { 'in.jsonl': pets }, async (here) => {
      const line = `"${process.execPath}" "$1" import in.jsonl --storage file:a.jsonl`;
      const shell = `stty cols ${columns}; exec ${line.replace('$1', '$PROGRAM')}`;
      const env = { TERM: 'xterm', PROGRAM: serverFile };
      const { stdout } = await here.shell(`script -qec '${shell}' /dev/null`, env).ended;
      assert.match(stdout, bar);
      const lines = stdout.split(/[\r\n]+/).map((text) => text.replace('\u001b[K', ''));
      assert.ok(
        lines.some((text) => text.startsWith('5000 pets added')),
        stdout,
      );
      assert.ok(lines.filter((text) => /%/.test(text)).every(({ length }) => length < +columns));
    });

  testInFolder('has the width that COLUMNS gives', { 'in.jsonl': pets }, async (here) => {
    const env = { TERM: 'xterm', COLUMNS: '20' };
    const { stdout } = await here.onTerminal('import in.jsonl', env).ended;
    const lines = stdout.split(/[\r\n]+/).filter((text) => /%/.test(text));
    assert.ok(lines.length > 0);
    assert.ok(
      lines.every((text) => text.replace('\u001b[K', '').length < 20),
      stdout,
    );
  });
});

testInFolder('import says that it waits for a terminal', async (here) => {
  const { stdout } = await here.onTerminal('import -').ended;
  assert.match(stdout, /^reading pets from the terminal; end them with Ctrl-D\r$/m);
});

testInFolder('import says if a file has no pets', { 'in.jsonl': '\n' }, async (here) => {
  const { code, stdout, stderr } = await here.command('import in.jsonl');
  assert.deepEqual(
    [code, stdout, stderr],
    [0, '0 pets added to file:data/pets.jsonl\n', 'in.jsonl has no pets\n'],
  );
});
