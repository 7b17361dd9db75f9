/**
 * Waits until all promises are settled, so that no request is in flight during the next check.
 * Returns their values.
 *
 * @throws the first of their errors
 */
export async function allSettled<Work extends readonly unknown[] | []>(work: Work) {
  await Promise.allSettled(work);
  return Promise.all(work);
}
