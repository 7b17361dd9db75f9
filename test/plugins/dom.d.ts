// As much of the DOM as the types of playwright-core mention; all of `lib.dom` would let every test use a browser's globals.
// biome-ignore-start lint/suspicious/noEmptyInterface: the types of playwright-core name them and no member.
interface Node {}
interface SVGElement extends Node {}
interface HTMLElement extends Node {}
interface HTMLElementTagNameMap {}
// biome-ignore-end lint/suspicious/noEmptyInterface: as above.
