/** Tests of the optional member `texts`. */
import assert from 'node:assert/strict';
import { rex, type TestWith } from './storage-tester.js';

/** Registers the test of `texts`, which passes if the storage has no `texts`. */
export function testTexts(testWith: TestWith): void {
  testWith('texts returns pets as JSON in byte strings', [], async ({ texts }) => {
    if (texts === undefined) return;

    const json = '{"id":1,"name":"T\u00c3\u00bcm","categoryId":5,"status":"sold"}';
    assert.deepEqual(await texts.insert({ ...rex, name: 'Tüm', status: 'sold' }), { id: 1n, json });
    assert.equal(await texts.get(1n), json);
    assert.equal(await texts.get(2n), undefined);
    assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
  });
}
