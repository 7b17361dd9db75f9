/** Owns values that are there at once, or will be. Knows no value. */

/** A value, or the promise of one. */
export type Awaitable<Value> = Value | PromiseLike<Value>;

/** Whether the value is still to come. */
export function isPending<Value>(value: Awaitable<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Goes on with a value as soon as it is there; at once where it is: a promise costs as much as finding an animal. */
export function andThen<Value, Next>(value: Awaitable<Value>, next: (value: Value) => Next): Next | Promise<Next> {
  return isPending(value) ? Promise.resolve(value).then(next) : next(value);
}
