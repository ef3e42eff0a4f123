// what store() refuses is an Error and leaves the old value
// limits: {"max_store_bytes": 228}
const attempt = (f) => {
  try {
    text(`accepted: ${String(f())}`);
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
store("k", "old");
const cycle = {};
cycle.self = cycle;
const no = () => {
  throw new RangeError("its own");
};
for (const value of [
  () => 1,
  Symbol("s"),
  5n,
  { n: 5n },
  cycle,
  { toJSON: no },
  {
    get a() {
      return no();
    },
  },
  { toJSON: () => undefined },
]) {
  attempt(() => store("k", value));
}
for (const key of [undefined, null, Symbol("s"), {}, [], true, 5n, () => 1]) {
  attempt(() => store(key, 1));
  attempt(() => load(key));
}
attempt(() => store());
attempt(() => store("k", "x".repeat(170)));
attempt(() => store("x".repeat(170), 1));
text(load("k"));
attempt(() => store("k", "x".repeat(161)));
attempt(() => store("k", "y".repeat(161)));
attempt(() => store("other", 1));
attempt(() => store("k", undefined));
attempt(() => store("other", 1));
attempt(() => store("k", "中".repeat(30)));
attempt(() => store("k", "é".repeat(50)));
attempt(() => store("k", "😀".repeat(24)));
attempt(() => store("k", "中".repeat(29)));
text(load("k"));
attempt(() => store("nested", [[[[[]]]]]));
attempt(() => {
  let deep = [];
  for (let i = 0; i < 100000; i++) deep = [deep];
  store("deep", deep);
});
attempt(() => load("deep"));
