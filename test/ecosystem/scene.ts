// Owns what the clients meet: a petstore with orders, its document, and programs of npx that end with their test.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createPetstore, type Petstore } from '../../build/index.js';
import { ordersPlugin } from '../../build/plugins/orders.js';
import { atEnd } from '../at-end.js';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const key = 'psk_test';

/** What comes by npx, pinned. */
export const programs = {
  attw: '@arethetypeswrong/cli@0.18.5',
  prism: '@stoplight/prism-cli@5.14.2',
  publint: 'publint@0.3.25',
  redocly: '@redocly/cli@2.77.0',
} as const;

/** A petstore that closes behind the test. */
export function petstoreOf(t: TestContext): Petstore {
  const petstore = createPetstore({ keys: [key], plugins: [ordersPlugin()] });
  atEnd(t, petstore.close);
  return petstore;
}

/** The OpenAPI document of such a petstore. */
export async function documentText(): Promise<string> {
  const { fetch, close } = createPetstore({ keys: [key], plugins: [ordersPlugin()] });
  const text = await (await fetch(new Request('http://any/openapi.json'))).text();
  await close();
  return text;
}

/** An empty folder that is gone behind the test. */
export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'petstore-ecosystem-'));
  atEnd(t, () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A file with the document, in a folder of its own. */
export async function documentFile(t: TestContext): Promise<string> {
  const file = join(folder(t), 'openapi.json');
  writeFileSync(file, await documentText());
  return file;
}

/** A program and all that it starts; both are gone behind the test. */
export class Program {
  /** Standard output and standard error as they came. */
  output = '';
  /** Of its standard output alone. */
  stdout = '';
  readonly ended: Promise<number | null>;

  constructor(t: TestContext, command: string, args: readonly string[], cwd: string) {
    // A group of its own: npx starts others, which a signal to npx alone would leave behind.
    const child = spawn(command, args, {
      cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', NO_COLOR: '1' },
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.ended = new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    atEnd(t, async () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
      await this.ended;
    });
  }
}

/** Runs a program to its end, which must be 0; answers what it wrote to standard output. */
export async function run(t: TestContext, cwd: string, command: string, ...args: readonly string[]): Promise<string> {
  const program = new Program(t, command, args, cwd);
  const code = await program.ended;
  assert.equal(code, 0, `${command} ${args.join(' ')}: ${program.output}`);
  return program.stdout;
}

/** The arguments with which npx runs one of the programs. */
export function npxArgs(name: keyof typeof programs, ...args: readonly string[]): readonly string[] {
  return ['--yes', `--package=${programs[name]}`, '--', name, ...args];
}
