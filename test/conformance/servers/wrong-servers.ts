/** Starts servers that are wrong in exactly one way. */
import type { Level } from '../../../dist/conformance/index.js';
import type { Ending } from '../../support/at-end.js';
import { startWrong } from '../wrong-server.js';
import type { WrongPetstore } from './faults.js';
import { startPlain, type PlainPetstore } from './plain-petstore.js';
import { subtlePetstores } from './subtle-petstores.js';
import { wrongPetstores } from './wrong-petstores.js';
import { slowProxies, wrongProxies, type WrongProxy } from './wrong-proxies.js';

/** A wrong server with the rule that it breaks. */
export interface WrongServer {
  /** The number of the rule. */
  readonly number: string;
  /** What the server does, after "a server that". */
  readonly does: string;
  /** The lowest level at which `verify` finds it. */
  readonly level: Level;
  /** Starts the server until the test ends, and returns its URL. */
  readonly start: (t: Ending) => Promise<string>;
}

const serverOf = (
  { number, does, level, make }: WrongPetstore,
  prepare: (petstore: PlainPetstore) => void = () => undefined,
): WrongServer => ({
  number,
  does,
  level,
  start: (t) => {
    const petstore = make();
    prepare(petstore);
    return startPlain(t, petstore);
  },
});

const behindProxy = ([number, does, fault]: WrongProxy): WrongServer => ({
  number,
  does,
  level: 'full',
  start: (t) => startWrong(t, fault),
});

/** Adds 30 pets of another client to a store. */
function fill({ pets }: PlainPetstore): void {
  const statuses = [undefined, 'available', 'pending', 'sold'];
  for (let added = 0; added < 30; added++) {
    const status = statuses[added % 4];
    pets.push({
      id: String(pets.length + 1),
      name: `Pet "É" <${added}>`,
      categoryId: String(added % 9),
      ...(status !== undefined && { status }),
    });
  }
}

/** The petstores on plain node:http, which begin empty. */
export const emptyStores = [...wrongPetstores, ...subtlePetstores].map((each) => serverOf(each));

/** Petstores that have pets of other clients. */
export const filledStores = wrongPetstores.map((each) => ({
  ...serverOf(each, fill),
  does: `${each.does} and has pets of other clients`,
}));

/** The proxies before our petstore. */
export const proxies = wrongProxies.map(behindProxy);

/** The proxies before our petstore whose rule takes half a minute. */
export const slowServers = slowProxies.map(behindProxy);
