/** Owns noticing that a file changed, came or went. Knows nothing of what is in it. */
import { stat, statSync } from 'node:fs';

const intervalMs = 1_000;

/**
 * Calls back within about a second of each change, from what is there now on; keeps no process alive.
 *
 * Not `fs.watchFile`: its first look comes some time after the call, and what changed meanwhile is never noticed.
 */
export function watchFile(path: string, onChange: () => void): void {
  let seen = identityNow(path);
  const look = (): void =>
    stat(path, { bigint: true }, (error, facts) => {
      const found = identityOf(error === null ? facts : undefined);
      if (found !== seen) {
        seen = found;
        onChange();
      }
      lookLater();
    });
  const lookLater = (): void => void setTimeout(look, intervalMs).unref();
  lookLater();
}

interface Facts {
  readonly ino: bigint;
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

function identityNow(path: string): string {
  try {
    return identityOf(statSync(path, { bigint: true }));
  } catch {
    return identityOf(undefined);
  }
}

/** Undefined is a file that is not there, or not to be seen. */
function identityOf(facts: Facts | undefined): string {
  return facts === undefined ? '' : [facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join();
}
