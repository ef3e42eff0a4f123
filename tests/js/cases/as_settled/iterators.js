// as_settled() takes anything that Array.from does; the rest is a TypeError
const all = async (...given) => {
  const values = [];
  for await (const { index, value } of as_settled(...given)) values.push([index, value]);
  text(values);
};
await all([]);
await all(new Set([1, 2]));
await all("ab");
await all(new Map([[1, 2]]));
await all({ length: 2, 0: "zero" });
await all({});
await all(5);
await all(
  (function* () {
    yield Promise.resolve(1);
    yield 2;
  })(),
);
await all([, 1, ,]); // eslint-disable-line no-sparse-arrays
await all([1, 2], "ignored");
await all(new (class extends Array {})(3, 4));
await all(new Proxy([1, 2], {}));
await all(new Uint8Array([7, 8]));
for (const wrong of [undefined, null]) {
  try {
    as_settled(wrong);
  } catch (error) {
    text(error);
  }
}
for (const wrong of [
  { [Symbol.iterator]: 5 },
  {
    [Symbol.iterator]() {
      throw new RangeError("its own");
    },
  },
  {
    [Symbol.iterator]: () => ({
      next() {
        throw new RangeError("its next");
      },
    }),
  },
]) {
  try {
    as_settled(wrong);
  } catch (error) {
    text(error.message);
  }
}
const iterator = as_settled([1]);
text([
  typeof iterator.next,
  typeof iterator.return,
  typeof iterator.throw,
  iterator[Symbol.asyncIterator]() === iterator,
]);
