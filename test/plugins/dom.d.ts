// The types of the DOM that playwright-core names. With all of `lib.dom`, every test could use a
// browser's globals.
// biome-ignore-start lint/suspicious/noEmptyInterface: playwright-core names only the types.
interface Node {}
interface SVGElement extends Node {}
interface HTMLElement extends Node {}
interface HTMLElementTagNameMap {}
// biome-ignore-end lint/suspicious/noEmptyInterface: as above.
