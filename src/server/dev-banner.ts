/** Owns what `--dev` prints: where the docs are, and a command to paste that adds an animal and lists them. */

/** Lines, each ended; the last one is for a POSIX shell. `url` is what the server listens on. */
export function devBanner(url: string, key: string, hasDocs: boolean): string {
  // A server on all addresses is reached at its own; not every system knows the way to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  // The certificate of a trial is one that nobody has signed.
  const curl = `curl -sS -w '\\n'${url.startsWith('https:') ? ' -k' : ''} -H 'Authorization: Bearer ${key}'`;
  const animal = '{"name":"Rex","categoryId":1,"status":"available"}';
  // Quoted, for some shells read the brackets of an IPv6 address as a pattern.
  const paste = `${curl} -H 'Content-Type: application/json' -d '${animal}' '${home}/v1/pets' && ${curl} '${home}/v1/pets'\n`;
  return hasDocs ? `Docs: ${home}/docs\n${paste}` : paste;
}
