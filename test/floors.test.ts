// Holds the floors of shared/STYLE.md, as src is laid out, against the imports; and the dependency list against zero.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const src = join(root, 'src');

/** From the bottom up; a module imports values only from floors below its own, or from its own part of the house. */
const floors: readonly (readonly string[])[] = [
  ['errors', 'log', 'calling', 'awaitable'],
  ['json-string', 'int64'],
  ['json'],
  ['pet'],
  ['storage'],
  ['storage/*', 'key-ring', 'http/*'],
  ['plugin'],
  ['options', 'reply-watchers', 'reply-headers'],
  ['request-path'],
  ['petstore'],
  ['index', 'postgres'],
  ['plugins/*'],
  ['server/*'],
  ['commands/*'],
  ['server'],
];

/** What http may know of the house, and who may open Node's own doors. */
const builtinsOf: Readonly<Record<string, RegExp>> = {
  'node:http': /^(http\/(message|drain|server|connection|resources|wire|whole-request|whole-response)|petstore)$/,
  'node:https': /^http\/server$/,
  'node:net': /^http\/(server|connection|pipeline|head)$|^storage\/postgres\/socket$/,
  'node:fs': /^(storage|server|commands)\b|^http\/server$/,
  'node:fs/promises': /^(storage|server|commands)\b|^plugins\/docs$/,
  'node:child_process': /^storage\/lock/,
  'node:crypto': /^(key-ring|http\/idempotency-key|storage\/(lease|lock|copy|postgres).*|server.*|commands\/.*)$/,
};

/** The library that a module wraps: an optional peer, which nobody else may touch. */
const librariesOf: Readonly<Record<string, string>> = {
  'plugins/cors': 'cors',
  'plugins/docs': 'swagger-ui-dist',
  'plugins/metrics': 'prom-client',
  'storage/postgres/pool': 'pg',
};

function floorOf(module: string): number {
  const exact = floors.findIndex((floor) => floor.includes(module));
  return exact >= 0 ? exact : floors.findIndex((floor) => floor.includes(`${module.split('/')[0]}/*`));
}

const modules = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length));

const imports = modules.flatMap((module) => {
  const text = readFileSync(join(src, `${module}.ts`), 'utf8');
  return [
    ...text.matchAll(/^(?:import|export)\b(?! (?:async |default )?(?:function|class|const|interface|type \w+ =))[^;]*?from '([^']+)'|\bimport\('([^']+)'\)/gm),
  ].map((match) => {
    const target = match[1] ?? match[2] ?? '';
    return { module, target: target.startsWith('.') ? relative(src, normalize(join(src, dirname(module), target))).replace(/\.js$/, '') : target };
  });
});

test('every module stands on a floor', () => {
  assert.deepEqual(
    modules.filter((module) => floorOf(module) < 0),
    [],
  );
});

test('a module imports only from floors below, or beside it in its own part', () => {
  const wrong = imports.filter(({ module, target }) => {
    if (target.startsWith('node:') || target === librariesOf[module]) return false;
    const [own, other] = [floorOf(module), floorOf(target)];
    const beside = own === other && module.split('/')[0] === target.split('/')[0];
    return !(other < own && other >= 0) && !beside;
  });
  assert.deepEqual(wrong, []);
});

test('http and storage never see each other', () => {
  const crossing = imports.filter(({ module, target }) => {
    const towers = [module, target].map((name) => name.split('/')).map(([part, rest]) => (rest === undefined ? '' : part));
    return towers.includes('http') && towers.includes('storage');
  });
  assert.deepEqual(crossing, []);
});

test('the server, its commands and the plugins know the public API only', () => {
  const inside = imports.filter(({ module, target }) => {
    const part = module.split('/')[0] ?? '';
    if (!['server', 'commands', 'plugins'].includes(part) || target.startsWith('node:')) return false;
    if (part === 'plugins') return target !== 'index' && target !== librariesOf[module];
    if (module === 'server/shipped-plugins' && target.startsWith('plugins/')) return false;
    return target !== 'index' && target !== 'postgres' && !target.startsWith('server/') && !target.startsWith('commands/');
  });
  assert.deepEqual(inside, []);
});

test('what comes from outside is Node alone and what a module wraps, and only where it belongs', () => {
  const foreign = imports.filter(({ module, target }) => {
    if (modules.includes(target) || target === librariesOf[module]) return false;
    const builtin = target.startsWith('node:') && builtinModules.includes(target.slice('node:'.length));
    return !builtin || builtinsOf[target]?.test(module) === false;
  });
  assert.deepEqual(foreign, []);
});

test('only the standalone process reads the environment, listens to signals, writes to the console or exits', () => {
  const telling = /process\.(env|exit|exitCode|on|once|stdout|stderr|argv)\b|\bconsole\./;
  const wrong = modules.filter((module) => !/^(server|commands)\b/.test(module) && telling.test(readFileSync(join(src, `${module}.ts`), 'utf8')));
  assert.deepEqual(wrong, []);
});

test('what a start reads is of ASCII alone: Node decodes it faster, and holds it in half the memory', () => {
  const files = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.js'));
  assert.ok(files.includes('server.js'));
  assert.deepEqual(
    files.filter((file) => /[^\0-\x7f]/.test(readFileSync(join(root, 'dist', file), 'utf8'))),
    [],
  );
});

test('there is no runtime dependency, each library that is wrapped is an optional peer, and each plugin has its own export', () => {
  const { dependencies, peerDependencies, peerDependenciesMeta, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  assert.deepEqual(dependencies, {});
  const libraries = Object.values(librariesOf).sort();
  assert.deepEqual(Object.keys(peerDependencies).sort(), libraries);
  for (const library of libraries) assert.deepEqual(peerDependenciesMeta[library], { optional: true });
  const plugins = modules.filter((module) => module.startsWith('plugins/')).map((module) => `./${module}`);
  assert.deepEqual(
    Object.keys(exports)
      .filter((name) => name.startsWith('./plugins/'))
      .sort(),
    plugins.sort(),
  );
});
