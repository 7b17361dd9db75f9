/**
 * R14, ourselves: faults put into a copy of src one at a time, each of which a named test must
 * catch. Knows no figure but theirs.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import assert from 'node:assert/strict';
import { folder as folderOf } from '../support/process.js';
import type { Row } from './row.js';

/** A fault: a text of a source file that becomes another, and the test that sees it. */
interface Fault {
  readonly name: string;
  readonly file: string;
  readonly text: string;
  readonly becomes: string;
  readonly test: string;
  /** The beginning of the test's name. */
  readonly caughtBy: string;
}

export const faults: readonly Fault[] = [
  {
    name: '201 before the sync',
    file: 'journal/disk.ts',
    text: 'await disk.datasync(descriptor);',
    becomes: 'void disk.datasync(descriptor);',
    test: 'storage/append.test.ts',
    caughtBy: 'F1 an animal is visible only after the fdatasync',
  },
  {
    name: 'writes that do not sync',
    file: 'journal/disk.ts',
    text: 'appendFlags: constants.O_DSYNC',
    becomes: 'appendFlags: 0',
    test: 'storage/append.test.ts',
    caughtBy: 'F1 this machine appends by one call',
  },
  {
    name: 'a failed sync taken for a full disk',
    file: 'journal/index.ts',
    text: 'if (facts?.size === expected && ',
    becomes: 'if (facts !== undefined && facts.size >= expected && ',
    test: 'storage/disk-faults.test.ts',
    caughtBy: 'F6 after a full disk found by fdatasync',
  },
  {
    name: 'bytes written not compared',
    file: 'journal/disk.ts',
    text: 'done += count;',
    becomes: 'done = bytes.length;',
    test: 'storage/append.test.ts',
    caughtBy: 'F1 short writes are finished',
  },
  {
    name: 'sync tried again after failure',
    file: 'journal/index.ts',
    text: 'await disk.truncate(descriptor, end).catch(nothing);\n    return becomeBroken(error);',
    becomes: 'await disk.datasync(descriptor);\n    return becomeFull(error);',
    test: 'storage/disk-faults.test.ts',
    caughtBy: 'F6 after',
  },
  {
    name: 'folder not synced',
    file: 'journal/disk.ts',
    text: "if (process.platform !== 'win32')",
    becomes: 'if (folder === undefined)',
    test: 'storage/file-place.test.ts',
    caughtBy: 'F8 a new file',
  },
  {
    name: 'no undo after a full disk',
    file: 'journal/index.ts',
    text: 'await disk.truncate(descriptor, end).catch(becomeBroken);',
    becomes: '',
    test: 'storage/disk-faults.test.ts',
    caughtBy: 'F5 ',
  },
  {
    name: 'visible before durable',
    file: 'file/index.ts',
    text: 'const syncMilliseconds = await journal.append(lines);\n    for (const { stored, status, keyUse } of records) {\n      catalogue.add(stored.id, status, stored.json);',
    becomes:
      'for (const { stored, status } of records) catalogue.add(stored.id, status, stored.json);\n    const syncMilliseconds = await journal.append(lines);\n    for (const { stored, keyUse } of records) {',
    test: 'storage/append.test.ts',
    caughtBy: 'F1 an animal is visible only after the fdatasync',
  },
  {
    name: 'a bad line skipped',
    file: 'journal/lines.ts',
    text: "const what = reasonOf(error).replace(/\\.$/, '');",
    becomes: 'const what = reasonOf(error) === "" ? "" : undefined;',
    test: 'storage/start.test.ts',
    caughtBy: 'F3 what no crash explains',
  },
  {
    name: 'no lock',
    file: 'journal/disk.ts',
    text: 'if (status === 0 || status === 1) return status === 0;',
    becomes: 'if (status !== undefined) return true;',
    test: 'storage/lock.test.ts',
    caughtBy: 'F4 a second open in the same process is refused',
  },
  {
    name: 'a lock not taken',
    file: 'journal/index.ts',
    text: 'await disk.lock(descriptor, path);',
    becomes: '',
    test: 'storage/lock.test.ts',
    caughtBy: 'F4 a file with two names has one owner',
  },
  {
    name: 'keep-alive after an unread body',
    file: 'http/connection.ts',
    text: 'const closes = reply.endsConnection === true || !exchange.keepsAlive || isLast;',
    becomes: 'const closes = reply.endsConnection === true || isLast;',
    test: 'http/early-answers.test.ts',
    caughtBy: 'C51 an answer before the body was read',
  },
  {
    name: "the parser's error answered for a request under way",
    file: 'http/connection.ts',
    text: 'if (this.#current === undefined) this.#hangUp();',
    becomes: 'this.#hangUp();',
    test: 'http/pipelining.test.ts',
    caughtBy: 'C52 an error behind a good request',
  },
  {
    name: 'a second request started early',
    file: 'http/connection.ts',
    text: 'this.#waiting.push(exchange);',
    becomes: 'this.#waiting.push(exchange);\n      void this.#shared.service.answer(exchange);',
    test: 'http/pipelining.test.ts',
    caughtBy: 'C52 two hundred requests in one packet',
  },
  {
    name: 'a page cached that may still grow',
    file: 'operations.ts',
    text: 'if (page.next !== undefined && isSmall) keep',
    becomes: 'if (isSmall) keep',
    test: 'http/conformance.test.ts',
    caughtBy: 'C6 a page before the last one',
  },
  {
    name: 'a key compared as text',
    file: 'auth.ts',
    text: 'timingSafeEqual(digest, entry.digest)',
    becomes: "digest.toString('hex') === entry.digest.toString('hex')",
    test: 'http/keys.test.ts',
    caughtBy: 'C40 a token is compared with every digest',
  },
  {
    name: 'duplicate members accepted',
    file: 'json.ts',
    text: "if (members.has(name)) this.#fail('a member name that stands twice', nameAt);",
    becomes: 'void nameAt;',
    test: 'http/conformance.test.ts',
    caughtBy: 'C26 what is no JSON',
  },
];

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A copy of the project to be spoilt, in a folder that is gone at the end. */
function copyInto(folder: string): void {
  for (const name of [
    'src',
    'test/support',
    'test/http',
    'test/storage',
    'tsconfig.json',
    'package.json',
    'data/animals.jsonl',
  ]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
}

function build(folder: string): void {
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '--noUnusedLocals', 'false'],
    {
      cwd: folder,
      encoding: 'utf8',
    },
  );
  assert.ok(status === 0, `a fault does not compile: ${stdout}`);
}

/** What became of the tests of a name. */
interface Outcome {
  readonly passed: number;
  /**
   * By what they hold, not by a crash, by an error that nobody caught, or by a hang that the runner
   * cut short.
   */
  readonly failed: number;
  readonly printed: string;
}

/**
 * Runs the tests of a fault's name; an end before they come to their own is neither passed nor
 * failed.
 */
function outcomeOf(folder: string, { test, caughtBy }: Fault): Outcome {
  const name = caughtBy.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const args = [
    '--import',
    'tsx',
    '--test-reporter',
    'tap',
    '--test-name-pattern',
    `^${name}`,
    '--test',
    join('test', test),
  ];
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: 'utf8',
    timeout: 60_000,
  });
  // A line of TAP and the YAML behind it; other tests of the file stand there as skipped.
  const results = [
    ...stdout.matchAll(
      new RegExp(
        `^( *)(not ok|ok) [0-9]+ - ${name}(?!.* # SKIP).*\\n\\1  ---\\n([^]*?)^\\1  \\.\\.\\.$`,
        'gm',
      ),
    ),
  ];
  const passed = results.filter(([, , word]) => word === 'ok').length;
  const failed = results.filter(
    ([, , word, details = '']) =>
      word === 'not ok' && details.includes("failureType: 'testCodeFailure'"),
  ).length;
  return { passed, failed, printed: `${stdout}\n${stderr}` };
}

/** The row of the table. */
export const seeded: Row = {
  id: 'R14',
  title: 'Seeded faults in our own source, each caught by a named test',
  fullS: 40,
  isAlwaysFull: true,
  run: async (share) => {
    const folder = folderOf(share);
    copyInto(folder);
    build(folder);
    for (const fault of faults) {
      const path = join(folder, 'src', fault.file);
      const source = readFileSync(path, 'utf8');
      assert.ok(
        source.includes(fault.text),
        `${fault.name}: ${fault.file} no longer says ${fault.text}`,
      );
      const sound = outcomeOf(folder, fault);
      assert.ok(
        sound.passed > 0 && sound.failed === 0,
        `${fault.caughtBy} of ${fault.test}: ${sound.passed} pass and ${sound.failed} fail without a fault\n${sound.printed}`,
      );
      writeFileSync(
        path,
        source.replace(fault.text, () => fault.becomes),
      );
      build(folder);
      const spoilt = outcomeOf(folder, fault);
      assert.ok(
        spoilt.failed > 0,
        `${fault.name}: no \`not ok\` of ${fault.caughtBy} in ${fault.test}\n${spoilt.printed}`,
      );
      writeFileSync(path, source);
      build(folder);
    }
    return `${faults.length} faults, each caught by a named test`;
  },
};
