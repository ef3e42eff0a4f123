// text() of objects is their JSON, in the order of their keys
text({});
text([]);
text({ b: 1, a: { c: [] }, 2: "two", 1: "one" });
text({ undefined, function: () => 1, symbol: Symbol("s"), kept: null });
text([undefined, () => 1, Symbol("s"), , null]); // eslint-disable-line no-sparse-arrays
text({ [Symbol("key")]: 1, plain: 2 });
text(Object.create({ inherited: 1 }, { hidden: { value: 1 }, own: { value: 2, enumerable: true } }));
text(Object.create(null));
text(JSON.parse('{"__proto__": {"a": 1}, "constructor": 2, "toString": 3}'));
text({
  get a() {
    return 1;
  },
  b: 2,
});
text({ quote: '"', slash: "\\", control: "\u0001\n", line: "\u2028", emoji: "😀" });
text("x".repeat(3).split(""));
class Point {
  #hidden = 1;
  x = 1;
  y = this.#hidden;
}
text(new Point());
