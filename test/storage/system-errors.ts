/** System errors as node:fs rejects with them. */
import { constants } from 'node:os';

/** What a call of a disk may fail with. */
export const errnos = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE'] as const;

/** A system error by its errno's name, which libuv does not know of EDQUOT. */
export function systemError(name: string): Error {
  const errno = -(Object.entries(constants.errno).find(([known]) => known === name)?.[1] ?? Number.NaN);
  const code = name === 'EDQUOT' ? `Unknown system error ${errno}` : name;
  return Object.assign(new Error(`${name}: injected`), { code, errno });
}
