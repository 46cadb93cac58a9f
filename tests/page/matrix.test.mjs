// What the map is made of: the binary form, orders, and that the worst cell is never lost.

import assert from "node:assert/strict";
import test from "node:test";
import { CODE, LAYERS, arrange, badnessOf, codesOf, countStates, halved, parse, scaleOf, worstPairs } from "./matrix.js";

/** Bytes as the API's document describes them: each row a figure for each target, a second one, and the states. */
function bytes(names, states, first, second) {
  const count = names.length, text = new TextEncoder().encode(names.map((name) => `${name}\n`).join(""));
  const start = Math.ceil((36 + text.length) / 8) * 8, row = Math.ceil(count * 9 / 4) * 4;
  const buffer = new ArrayBuffer(start + count * row), view = new DataView(buffer), all = new Uint8Array(buffer);
  all.set(new TextEncoder().encode("RSM2"));
  view.setUint32(4, start, true);
  view.setBigUint64(16, 1_700_000_000_000n, true);
  view.setUint32(24, count, true);
  all.set([3, 2], 28);
  view.setUint32(32, text.length, true);
  all.set(text, 36);
  for (let source = 0; source < count; source++) {
    const at = start + source * row;
    first[source].forEach((value, target) => view.setFloat32(at + 4 * target, value, true));
    second[source].forEach((value, target) => view.setFloat32(at + 4 * (count + target), value, true));
    all.set(new TextEncoder().encode(states[source]), at + 8 * count);
  }
  return buffer;
}

const X = NaN;
const NAMES = ["b/m0/1", "a10/m0/1", "a9/m0/1"];
const small = () => parse(bytes(NAMES, ["-fx", "s-f", "en-"], [[X, 2000, X], [3000, X, 8000], [X, X, X]], [[X, 0, 1], [0, X, 0.5], [X, X, X]]));
const ALL = [0, 1, 2];

test("the binary form is read, and what was cut short is refused", () => {
  const matrix = small();
  assert.deepEqual(matrix.names, NAMES);
  assert.equal(matrix.generatedAt, 1_700_000_000_000);
  assert.equal(matrix.first[1][2], 8000);
  assert.equal(matrix.second[1][2], 0.5);
  assert.equal(String.fromCharCode(...matrix.states[2]), "en-");
  assert.throws(() => parse(bytes(NAMES, ["---", "---", "---"], [[], [], []], [[], [], []]).slice(0, -4)), /cut short/);
  assert.throws(() => parse(new ArrayBuffer(64)), /RSM2/);
  assert.deepEqual(countStates(matrix, ALL), { f: 2, s: 1, n: 1, x: 1, e: 1 });
});

test("a state decides before a figure, and fresh cells have a shade each", () => {
  const matrix = small(), scale = scaleOf(matrix, LAYERS.ping, ALL), codes = codesOf(matrix, LAYERS.ping, scale, ALL, "there");
  assert.deepEqual([scale.low, scale.high, scale.median], [2000, 8000, 8000]);
  assert.equal(codes[1], CODE.fresh, "the smallest has the best shade");
  assert.equal(codes[5], CODE.failed - 60, "the largest has the worst one");
  assert.equal(codes[2], CODE.failed);
  assert.ok(codes[3] >= CODE.stale && codes[3] < CODE.fresh);
  assert.deepEqual([codes[0], codes[6], codes[7]], [CODE.self, CODE.excluded, CODE.never]);
  const bandwidth = codesOf(matrix, { ...LAYERS.ping, lowIsBad: true }, scale, ALL, "there");
  assert.ok(bandwidth[1] > bandwidth[5], "little bandwidth is bad");
});

test("the other direction is the mirror, and the worse of both stands in both places", () => {
  const matrix = small(), scale = scaleOf(matrix, LAYERS.ping, ALL);
  const [there, back, worse] = ["there", "back", "worse"].map((direction) => codesOf(matrix, LAYERS.ping, scale, ALL, direction));
  for (let row = 0; row < 3; row++) {
    for (let column = 0; column < 3; column++) {
      const [a, b] = [row * 3 + column, column * 3 + row];
      assert.equal(back[a], there[b]);
      assert.equal(worse[a], Math.max(there[a], there[b]));
    }
  }
});

test("orders: names by their numbers, groups side by side, what has no place last, the worst first", () => {
  const matrix = small(), places = { "b/m0/1": "leaf-2", "a10/m0/1": "", "a9/m0/1": "leaf-10" };
  const placeOf = (name) => ({ rail: name.startsWith("a") ? "0" : "1", leaf: places[name], node: name.split("/")[0] });
  const none = new Float64Array(3), order = (by, rail = "") => arrange(matrix, placeOf, rail, by, none).at.map((index) => NAMES[index]);
  assert.deepEqual(order("node"), ["a9/m0/1", "a10/m0/1", "b/m0/1"]);
  assert.deepEqual(order("leaf"), ["b/m0/1", "a9/m0/1", "a10/m0/1"]);
  assert.deepEqual(order("node", "0"), ["a9/m0/1", "a10/m0/1"]);
  assert.deepEqual(arrange(matrix, placeOf, "", "rail", none).groups, [{ label: "0", from: 0, to: 2 }, { label: "1", from: 2, to: 3 }]);
  const codes = codesOf(matrix, LAYERS.ping, scaleOf(matrix, LAYERS.ping, ALL), ALL, "there");
  assert.equal(arrange(matrix, placeOf, "", "worst", badnessOf(codes, ALL, 3)).at[0], 2, "it is an end of the failed and of the slow pair");
});

test("one failed cell of many is seen at every size", () => {
  const count = 101, codes = new Uint8Array(count * count).fill(CODE.fresh);
  codes[77 * count + 100] = CODE.failed;
  let level = { codes, count };
  while (level.count > 1) {
    level = halved(level.codes, level.count);
    assert.equal(level.codes.filter((code) => code === CODE.failed).length, 1, `${level.count}`);
  }
});

test("the worst pairs: failed ones first, then by figure, and never more than asked for", () => {
  const matrix = small(), codes = codesOf(matrix, LAYERS.ping, scaleOf(matrix, LAYERS.ping, ALL), ALL, "there");
  assert.deepEqual(worstPairs(matrix, LAYERS.ping, codes, ALL, 2), [[0, 2], [1, 2]]);
  assert.deepEqual(worstPairs(matrix, LAYERS.ping, codes, ALL, 10), [[0, 2], [1, 2], [0, 1], [1, 0]].slice(0, 4));
});

test("one outlier does not make all others look alike, and little spread is no contrast", () => {
  const [far, near] = [[[X, 1000, 1100], [1050, X, 1_000_000], [1000, 1000, X]], [[X, 1000, 1001], [1002, X, 1003], [1000, 1000, X]]]
    .map((first) => scaleOf(parse(bytes(NAMES, ["-ff", "f-f", "ff-"], first, first)), LAYERS.ping, ALL));
  assert.ok(far.above && !far.below && far.high < 10_000);
  assert.equal(far.of(1_000_000), 1);
  assert.ok(near.high / near.low >= 1.99);
});
