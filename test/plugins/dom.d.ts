// As much of the DOM as the types of playwright-core mention; all of `lib.dom` would let every test use a browser's globals.
interface Node {}
interface SVGElement extends Node {}
interface HTMLElement extends Node {}
interface HTMLElementTagNameMap {}
