// setters at the indices of Array.prototype see none of our lists
// echo all
// fire all
const taken = [];
for (let i = 0; i < 50; i++) {
  Object.defineProperty(Array.prototype, i, {
    configurable: true,
    get: () => undefined,
    set(value) {
      taken.push([i, typeof value, Array.isArray(this)]);
    },
  });
}
const before = taken.length;
text({ map: new Map([["a", new Set([1, 2])]]) });
const cycle = { list: [] };
cycle.self = cycle;
text(cycle);
for (let i = 5; i > 0; i--) setTimeout((a, b) => text([i, a, b]), i * 1000, "a", "b");
content([
  { type: "text", text: "one" },
  { type: "text", text: "two" },
]);
const calls = [tools.echo({ n: 1 }), tools.echo({ n: 2 }), tools.echo(3), "plain"];
for await (const { index, status } of as_settled(calls)) text(`${index} ${status}`);
text([taken.length, before]);
await new Promise((go) => setTimeout(go, 100000));
throw new AggregateError([new Error("one"), new Error("two")], "both", { cause: [1, 2] });
