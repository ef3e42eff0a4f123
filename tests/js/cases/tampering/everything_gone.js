// all that can be removed is removed: prototypes emptied, globals deleted
// echo all
// fire all
const { ownKeys, deleteProperty, getPrototypeOf } = Reflect;
const { tools: ourTools, ALL_TOOLS: ourList, text: ourText } = globalThis;
const everything = globalThis;
const roots = [];
for (const name of ownKeys(globalThis)) {
  const value = globalThis[name];
  if (typeof value === "function" && value.prototype) roots.push(value.prototype, value);
  else if (typeof value === "object" && value !== null) roots.push(value);
}
roots.push(globalThis, getPrototypeOf([][Symbol.iterator]()), getPrototypeOf(getPrototypeOf([][Symbol.iterator]())));
roots.push(
  getPrototypeOf(async function () {}),
  getPrototypeOf(function* () {}),
  getPrototypeOf(Int8Array),
);
for (let i = 0; i < roots.length; i++) {
  const keys = ownKeys(roots[i]);
  for (let j = 0; j < keys.length; j++) {
    if (roots[i] !== ourTools && roots[i] !== ourList) deleteProperty(roots[i], keys[j]);
  }
}
text(ownKeys(everything));
text({ a: [1n, new (class A {})()], f() {} });
ourText(5);
store("k", { a: 1 });
text(load("k"));
notify("n");
image("https://host/");
setTimeout((a) => text(a), 1, "timer");
text(await tools.echo({ n: 1 }));
// Without Promise.prototype.constructor and `then` an await of the language's own promises no longer works.
text(await as_settled([tools.echo({ n: 2 }), 3]).next());
try {
  null.x;
} catch (error) {
  text(error);
}
tools.echo({}, 5).then(text);
await tools.echo(5);
