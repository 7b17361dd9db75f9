/** Reports the state of a storage file, for the command `check`. */
import { nodeDisk, replay, type Problem } from '../journal/index.js';
import { petStatuses, type PetStatus } from '../pet.js';
import { withReadOnlyFile } from './read-only.js';
import { petLines } from './record-lines.js';

/** The content and the state of a storage file. */
export interface FileReport {
  /** A server starts on a `sound` or `torn` file (F2), but not on a `damaged` file (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** The first bad line; undefined if the file is sound. */
  readonly problem: Problem | undefined;
  /** The number of pets that a server would have; in a damaged file, those with a sound commit. */
  readonly animals: number;
  /** The number of these pets by status; `none` counts pets without a status. */
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** The number of these pets that were added with an idempotency key. */
  readonly idempotencyKeys: number;
  /** The number of commits before the problem. */
  readonly commits: number;
  /** The size of the file. */
  readonly bytes: number;
  /** The offset at which the last sound commit ends. */
  readonly committedBytes: number;
  /** The size of the torn tail that a start would cut off, else 0. */
  readonly tornBytes: number;
}

/**
 * Reports what a server would find in a file if it started now. Takes no lock, so that the last
 * write of a running server may look torn.
 * @throws PetstoreError `storage_unusable` if the file cannot be read
 */
export async function checkFile(path: string): Promise<FileReport> {
  const counts = { animals: 0, idempotencyKeys: 0, byStatus: { ...zeros(), none: 0 } };
  const copyOfCounts = () => ({ ...counts, byStatus: { ...counts.byStatus } });
  let committed = copyOfCounts();

  const accept = petLines((_id, _json, indexed, keyUse) => {
    counts.animals++;
    counts.byStatus[indexed?.status ?? 'none']++;
    if (keyUse) counts.idempotencyKeys++;
  });

  const { problem, commits, bytes, committedBytes, tornTail } = await withReadOnlyFile(
    path,
    (descriptor) => replay(nodeDisk, descriptor, accept, () => (committed = copyOfCounts())),
  );

  const verdict = problem ? (tornTail ? 'torn' : 'damaged') : 'sound';
  return {
    verdict,
    problem,
    ...(verdict === 'damaged' ? committed : counts),
    commits,
    bytes,
    committedBytes,
    tornBytes: tornTail?.length ?? 0,
  };
}

/** Returns a count of 0 for each status. `Object.assign` has no type for computed names. */
function zeros(): Record<PetStatus, number> {
  return Object.assign({}, ...petStatuses.map((status) => ({ [status]: 0 })));
}
