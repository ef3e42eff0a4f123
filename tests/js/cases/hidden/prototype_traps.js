// proxies as prototypes of what scripts share with us are never asked for anything of ours
// echo all
// fire all
const asked = new Set();
const spy = (label) =>
  new Proxy(
    {},
    {
      get: (_, key) => void asked.add(`${label} get ${String(key)}`),
      has: (_, key) => (asked.add(`${label} has ${String(key)}`), false),
      set: (_, key) => (asked.add(`${label} set ${String(key)}`), true),
      getPrototypeOf: () => null,
    },
  );
for (const [label, value] of Object.entries({
  Array,
  Function,
  Promise,
  Map,
  Set,
  Error,
  String,
  Number,
  Symbol,
  WeakMap,
})) {
  try {
    Object.setPrototypeOf(value.prototype, spy(label));
  } catch {
    text(`${label} is fixed`);
  }
}
text([1, { a: new Map([[1, new Set([2])]]) }]);
text("a string");
text(Symbol("s"));
text(new Error("an error"));
store("k", [1]);
text(load("k"));
notify("n");
image("https://host/");
setTimeout((a) => text(a), 0, "timer");
text(await tools.echo({ list: [1] }));
for await (const { value } of as_settled([tools.echo({ a: 1 }), 5])) text(value);
await new Promise((go) => setTimeout(go, 1));
text([...asked].sort());
