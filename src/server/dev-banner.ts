/** Owns the one line that `--dev` prints: a command to paste that adds an animal and lists them. */

/** A line for a POSIX shell; `url` is what the server listens on. */
export function devBanner(url: string, key: string): string {
  // A server on all addresses is reached at its own; not every system knows the way to 0.0.0.0.
  const pets = `${url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')}/v1/pets`;
  // The certificate of a trial is one that nobody has signed.
  const curl = `curl -sS -w '\\n'${url.startsWith('https:') ? ' -k' : ''} -H 'Authorization: Bearer ${key}'`;
  const animal = '{"name":"Rex","categoryId":1,"status":"available"}';
  // Quoted, for some shells read the brackets of an IPv6 address as a pattern.
  return `${curl} -H 'Content-Type: application/json' -d '${animal}' '${pets}' && ${curl} '${pets}'`;
}
