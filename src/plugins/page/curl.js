// The curl commands that do what the page does.

/** The longest command, in characters. Linux allows 128 KiB for one argument. */
const longestCommand = 100_000;

/**
 * Quotes a text for a POSIX shell.
 * @param {string} text
 */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Returns the parts of a command as lines.
 * @param {readonly string[]} options
 * @param {string} url
 */
function command(options, url) {
  // curl would expand brackets and braces, except those of an IPv6 address.
  const isPattern = /[[\]{}]/.test(url.replace(/^https?:\/\/\[[^\]]*\]/, ''));
  const parts = [
    `curl -sS ${isPattern ? '--globoff ' : ''}-w '\\n'`,
    '-H "Authorization: Bearer $PETSTORE_KEY"',
    ...options,
    quoted(url),
  ];
  return parts.join(' \\\n  ');
}

/**
 * Returns the command that requests a list.
 * @param {string} url
 */
export const listCommand = (url) => command([], url);

/**
 * Returns the command that adds a pet, or a comment if no shell accepts it.
 * @param {string} url
 * @param {string} body
 * @param {string} idempotencyKey Empty for none.
 */
export function addCommand(url, body, idempotencyKey) {
  if (body.length > longestCommand) return '# The pet is too long for a command line.';

  const key = idempotencyKey === '' ? [] : [`-H 'Idempotency-Key: ${idempotencyKey}'`];
  const json = `-d ${quoted(body)}`;
  return command(["-H 'Content-Type: application/json'", ...key, json], url);
}
