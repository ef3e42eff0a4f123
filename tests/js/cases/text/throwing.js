// text() never throws, whatever a value does when it is looked at
const no = () => {
  throw new Error("no");
};
text({
  get bad() {
    return no();
  },
});
text({
  before: 1,
  deep: [
    {
      get bad() {
        return no();
      },
    },
  ],
});
text({ toJSON: no });
text([{ toJSON: no }]);
text({ toString: no, valueOf: no, [Symbol.toPrimitive]: no });
text({ toJSON: 5 });
text({ toJSON: () => undefined });
text({ toJSON: () => Symbol("s") });
text({ toJSON: () => () => 1 });
text({ toJSON: () => 5n });
text({ toJSON: (key) => `key ${JSON.stringify(key)}` });
text([{ toJSON: (key) => `key ${JSON.stringify(key)}` }]);
const traps = new Proxy({}, { get: (_, name) => no(name) });
text(new Proxy({}, { get: no, ownKeys: no, getPrototypeOf: no, has: no, getOwnPropertyDescriptor: no }));
text(new Proxy(() => 1, { get: no, ownKeys: no, getPrototypeOf: no, getOwnPropertyDescriptor: no }));
text(new Proxy([], { get: no }));
text(new Proxy({}, traps));
text(new Proxy({}, { ownKeys: () => ["a", "a"] }));
for (const target of [{}, [], () => 1]) {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  text(proxy);
  text({ inside: proxy });
}
text({
  toJSON() {
    throw undefined;
  },
});
text(Object.defineProperty([], "length", { writable: false }));
text({
  get ["__proto__"]() {
    return no();
  },
});
