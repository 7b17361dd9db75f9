/** Replaces the API key in texts, so that no report of a run contains it. */

/** The minimum length of a text that is replaced wherever it stands. */
const minLength = 4;

/** A text of a request, or the shell expression that stands for a form of the key. */
export type MaskedPart = string | { readonly expression: string };

/** Finds the forms of a key in which requests send it, and servers may repeat it. */
export class KeyMask {
  readonly #pattern: RegExp;
  readonly #expressions: ReadonlyMap<string, string>;

  constructor(key: string) {
    const plain = '$PETSTORE_KEY';
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const forms: readonly (readonly [form: string, expression: string])[] = [
      [base64(`${key}:`), '$(printf %s: "$PETSTORE_KEY" | base64)'],
      [base64(key), '$(printf %s "$PETSTORE_KEY" | base64)'],
      [encodeURIComponent(key), plain],
      [JSON.stringify(key).slice(1, -1), plain],
      [key, plain],
      [key.slice(1), `$\{PETSTORE_KEY#?}`],
    ];

    const expressions = new Map<string, string>();
    const patterns: string[] = [];
    for (const [form, expression] of forms) {
      if (form === '' || expressions.has(form.toLowerCase())) continue;
      expressions.set(form.toLowerCase(), expression);
      const escaped = form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
      // A very short key may be part of any text, so only the places that hold a key count.
      patterns.push(form.length < minLength ? `(?<=bearer[ "=]*|key=)${escaped}` : escaped);
    }
    this.#expressions = expressions;
    this.#pattern = new RegExp(patterns.join('|') || '(?!)', 'gi');
  }

  /** Splits a text at the forms of the key. */
  split(text: string): readonly MaskedPart[] {
    const parts: MaskedPart[] = [];
    let from = 0;
    for (const { 0: form, index } of text.matchAll(this.#pattern)) {
      parts.push(text.slice(from, index));
      parts.push({ expression: this.#expressions.get(form.toLowerCase()) ?? '$PETSTORE_KEY' });
      from = index + form.length;
    }
    parts.push(text.slice(from));
    return parts.filter((part) => part !== '');
  }

  /** Returns a text with `$PETSTORE_KEY` in place of the key. */
  hide(text: string): string {
    return this.split(text)
      .map((part) => (typeof part === 'string' ? part : part.expression))
      .join('');
  }
}
