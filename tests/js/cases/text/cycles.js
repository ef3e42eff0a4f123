// text() cuts a cycle at the place where an object would stand inside itself
const o = {};
o.self = o;
text(o);
const list = [1];
list.push(list, { list });
text(list);
const a = { name: "a" };
const b = { name: "b", a };
a.b = b;
text([a, b]);
const deep = { one: { two: { three: {} } } };
deep.one.two.three.back = deep.one;
deep.one.two.three.top = deep;
text(deep);
const map = new Map();
map.set("itself", map);
map.set("inside", { map, list: [map] });
text(map);
text({ map });
const byKey = new Map();
byKey.set(byKey, "as key");
text(byKey);
const set = new Set();
set.add(set);
set.add([set]);
text(set);
const proxy = new Proxy(
  {},
  {
    ownKeys: () => ["p"],
    getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }),
    get: (_, key) => (key === "p" ? proxy : undefined),
  },
);
text(proxy);
const error = new Error("cyclic");
error.self = error;
text({ error }.error.message);
