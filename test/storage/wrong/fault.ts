/** Makes wrong storages: a fault replaces some members of a right storage in memory. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import {
  memoryStorage,
  PetstoreError,
  type PageQuery,
  type PetDraft,
  type PetStorage,
  type PetTexts,
} from '../../../dist/index.js';

/** A storage with all optional members that have a suite. */
export interface WholeStorage extends PetStorage {
  readonly texts: Required<PetTexts>;
  readonly insertOnce: NonNullable<PetStorage['insertOnce']>;
  readonly records: NonNullable<PetStorage['records']>;
}

/** Returns the members that replace those of a right storage. */
export type Fault = (right: WholeStorage) => Partial<PetStorage>;

/** Faults by the rules that they break. The name of a fault continues "a storage that …". */
export type Faults = Readonly<Record<string, Readonly<Record<string, Fault>>>>;

/** A valid draft, for storages that accept an invalid one. */
export const anyDraft: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };

function isWhole(storage: PetStorage): storage is WholeStorage {
  const { texts, insertOnce, records } = storage;
  return texts?.insertOnce !== undefined && insertOnce !== undefined && records !== undefined;
}

/** Returns a storage with a fault. */
export function storageWith(fault: Fault): PetStorage {
  const right = memoryStorage();
  assert.ok(isWhole(right));
  // Not a spread, because `size` is a getter.
  return Object.create(right, Object.getOwnPropertyDescriptors(fault(right)));
}

/** A method that may return or throw synchronously. */
type Method<Args extends unknown[], Result> = (...args: Args) => Result | Promise<Result>;

/** Returns a method that calls `instead` if `method` fails with a certain error. */
const insteadOf =
  (isExpected: (error: unknown) => boolean) =>
  <Args extends unknown[], Result>(
    method: Method<Args, Result>,
    instead: (...args: Args) => Result | Promise<Result>,
  ) =>
  async (...args: Args): Promise<Result> => {
    try {
      return await method(...args);
    } catch (error) {
      if (!isExpected(error)) throw error;
      return instead(...args);
    }
  };

/** Returns a function that tells errors of one code. */
const hasCode = (code: string) => (error: unknown) =>
  error instanceof PetstoreError && error.code === code;

/** Returns a method that calls `instead` after the storage was closed. */
export const whenClosed = insteadOf(hasCode('unavailable'));
/** Returns a method that calls `instead` if a key was used with another body. */
export const whenMismatched = insteadOf(hasCode('idempotency_mismatch'));
/** Returns a method that calls `instead` if an argument is not valid. */
export const whenInvalid = insteadOf((error) => error instanceof TypeError);

/** Throws an error that the contract of a storage does not have. */
export function throwOther(): never {
  throw new Error('another error');
}

/** Returns a method that makes the concurrent calls of `method` in the opposite order. */
export function lastCallFirst<Args extends unknown[], Result>(
  method: Method<Args, Result>,
): (...args: Args) => Promise<Result> {
  const calls: (() => void)[] = [];
  return async (...args) => {
    await new Promise<void>((resolve) => {
      calls.push(resolve);
      setImmediate(() => {
        for (const call of calls.splice(0).reverse()) call();
      });
    });
    return method(...args);
  };
}

/** A fault of a storage that rejects a second call of `close`. */
export const cannotBeClosedAgain: Fault = ({ close }) => {
  let isClosed = false;
  return {
    close: async () => {
      if (isClosed) throwOther();
      isClosed = true;
      await close();
    },
  };
};

/** Returns a function that makes an accepted query valid. */
const validIf =
  (isAccepted: (query: PageQuery) => boolean) =>
  <Query extends PageQuery>(query: Query): Query =>
    isAccepted(query) ? { ...query, limit: 5, after: undefined } : query;

/**
 * Returns a fault for each invalid query, by names.
 *
 * @param accepts Returns the fault of a `list` that changes invalid queries.
 */
export function invalidQueryFaults(
  accepts: (change: <Query extends PageQuery>(query: Query) => Query) => Fault,
): Readonly<Record<string, Fault>> {
  const limits = [0, -1, 1.5, NaN, Infinity, '5', 5n];
  const accepted = {
    'lists without a query': (query: PageQuery) => query === undefined,
    'lists with null as a query': (query: PageQuery) => query === null,
    'has a default limit': (query: PageQuery) => inspect(query) === '{}',
    ...Object.fromEntries(
      limits.map((limit) => [
        `accepts the ${typeof limit} ${limit} as a limit`,
        (query: PageQuery) => Object.is(query?.limit, limit),
      ]),
    ),
    ...Object.fromEntries(
      [1, '1', null].map((after) => [
        `accepts the ${typeof after} ${after} as a cursor`,
        (query: PageQuery) => Object.is(query?.after, after),
      ]),
    ),
  };
  return Object.fromEntries(
    Object.entries(accepted).map(([name, isAccepted]) => [name, accepts(validIf(isAccepted))]),
  );
}
