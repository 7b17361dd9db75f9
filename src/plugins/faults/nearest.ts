/** Finds the nearest right text, for messages about a wrong one. */
import type { RouteSummary } from '../../index.js';

/** Returns the text that needs the fewest changes of a character to become `text`. */
export function nearestTo(text: string, texts: readonly string[]): string {
  const shown = text.slice(0, 64).toLowerCase();
  const distances = texts.map((each) => distance(shown, each.toLowerCase()));
  return texts[distances.indexOf(Math.min(...distances))] ?? '';
}

/** Returns the number of characters to add, to remove or to replace (Levenshtein's distance). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [at, char] of [...one].entries()) {
    const next = [at + 1];
    for (let index = 0; index < other.length; index++) {
      const replaced = (row[index] ?? 0) + (char === other[index] ? 0 : 1);
      next.push(Math.min(replaced, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}

/** Returns the path of the route that is closest to `path`. */
export function nearestPath(path: string, routes: readonly RouteSummary[]): string {
  const segments = path.toLowerCase().replace(/\/$/, '').split('/');
  const isMeant = (route: string) => {
    const own = route.toLowerCase().split('/');
    const fits = (segment: string, at: number) =>
      segment === segments[at] || (segment.startsWith('{') && segments[at] !== '');
    return own.length === segments.length && own.every(fits);
  };
  const paths = routes.map((route) => route.path);
  return paths.find(isMeant) ?? nearestByStart(path, paths);
}

/** Returns the text that shares the longest beginning with `text`, regardless of case. */
export function nearestByStart(text: string, texts: readonly string[]): string {
  const lengths = texts.map((each) => sharedLength(text.toLowerCase(), each.toLowerCase()));
  return texts[lengths.indexOf(Math.max(...lengths))] ?? 'none';
}

/** Returns the number of characters that two texts share at their beginning. */
function sharedLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}
