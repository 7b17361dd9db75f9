/** How much each brings along when it is installed (issue 4, item 5). */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Part } from './part.js';
import { megabytes } from './words.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, 'test/bench/peers');

/** What each peer is made of. */
const peers = [
  { name: 'fastify', packages: ['fastify', 'lossless-json'] },
  {
    name: 'hono',
    packages: ['hono', '@hono/node-server', 'lossless-json', 'safe-stable-stringify'],
  },
  { name: 'express', packages: ['express', 'lossless-json', 'safe-stable-stringify'] },
  { name: 'json-server', packages: ['json-server'] },
  { name: 'bun', packages: ['bun'] },
];

/** What a lock file says of a package. */
interface Locked {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Adds up the packages that a lock file gives to each. */
export const footprint: Part = {
  name: 'footprint',
  title: 'Installed size',
  measure: async () => {
    const { packages }: { packages: Readonly<Record<string, Locked>> } = JSON.parse(
      readFileSync(join(folder, 'package-lock.json'), 'utf8'),
    );
    const rows = peers.map(({ name, packages: own }) => {
      const paths = installed(packages, own);
      const bytes = [...paths].reduce((sum, path) => sum + sizeOf(join(folder, path)), 0);
      return [
        name,
        own.map((part) => packages[`node_modules/${part}`]?.version ?? '').join(', '),
        String(paths.size),
        megabytes(bytes),
      ];
    });
    const packed = execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], {
      cwd: root,
      encoding: 'utf8',
      stdio: 'pipe',
    });
    const [{ version, unpackedSize }] = JSON.parse(packed);
    const note =
      'Packages with all that they depend on, as installed here; the bytes of their files. Bun is the runtime itself, the others need Node beside them.';
    const head = ['', 'version', 'packages', 'installed'];
    return {
      tables: [
        {
          title: 'Packages',
          note,
          head,
          rows: [['petstore', version, '1', megabytes(unpackedSize)], ...rows],
        },
      ],
    };
  },
};

/**
 * The folders of some packages and of all that they depend on, where Node would find them, if they
 * are installed.
 */
function installed(
  packages: Readonly<Record<string, Locked>>,
  names: readonly string[],
): ReadonlySet<string> {
  const found = new Set<string>();
  const add = (name: string, from: string): void => {
    const path = nearest(packages, name, from);
    if (path === undefined || found.has(path) || !existsSync(join(folder, path))) return;
    found.add(path);
    const { dependencies, optionalDependencies } = packages[path] ?? {};
    for (const needed of Object.keys({ ...dependencies, ...optionalDependencies }))
      add(needed, path);
  };
  for (const name of names) add(name, '');
  return found;
}

/** Where a package that asks for another one finds it: in its own folder, or in one further out. */
function nearest(
  packages: Readonly<Record<string, Locked>>,
  name: string,
  from: string,
): string | undefined {
  const path = from === '' ? `node_modules/${name}` : `${from}/node_modules/${name}`;
  if (packages[path] !== undefined) return path;
  return from === ''
    ? undefined
    : nearest(
        packages,
        name,
        from.includes('/node_modules/') ? from.slice(0, from.lastIndexOf('/node_modules/')) : '',
      );
}

/** The bytes of a package's own files, those of packages in its folder not counted. */
function sizeOf(path: string): number {
  const entries = readdirSync(path, { withFileTypes: true }).filter(
    ({ name }) => name !== 'node_modules',
  );
  return entries.reduce(
    (sum, entry) =>
      sum +
      (entry.isDirectory()
        ? sizeOf(join(path, entry.name))
        : statSync(join(path, entry.name)).size),
    0,
  );
}
