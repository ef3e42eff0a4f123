// the frames of functions of every kind, named and not
const show = (f, ...args) => {
  try {
    text(f(...args));
  } catch (error) {
    text(error);
  }
};
const no = () => {
  throw new Error("no");
};
function declared() {
  no();
}
show(declared);
show(function () {
  no();
});
show(() => no());
const object = {
  method() {
    no();
  },
  get getter() {
    return no();
  },
  set setter(_) {
    no();
  },
  ["comp" + "uted"]() {
    no();
  },
  [Symbol("sym")]() {
    no();
  },
  property: () => no(),
};
show(() => object.method());
show(() => object.getter);
show(() => (object.setter = 1));
show(() => object.computed());
show(() => object[Object.getOwnPropertySymbols(object)[0]]());
show(object.property);
show(declared.bind(null));
show(() => declared.call(5));
show(() => Reflect.apply(declared, null, []));
show(() => [1].map(no));
show(() => [3, 1].sort(() => no()));
show(() => "a".replace("a", () => no()));
show(() => JSON.stringify({ toJSON: no }));
show(() => JSON.parse("[1]", no));
show(() => new Proxy({}, { get: no }).x);
show(() => `${{ toString: no }}`);
show(() => +{ valueOf: no });
show((a = no()) => a);
show(({ a = no() }) => a, {});
show((tag) => tag`a${1}b`, no);
show(
  () => `a
  ${no()}
`,
);
show(() => {
  for (const each of { [Symbol.iterator]: no }) text(each);
});
show(() => {
  label: {
    no();
    break label;
  }
});
show(
  () =>
    new (function Constructor() {
      no();
    })(),
);
const { length } = [1, 2, 3];
show(() => (length > 2 ? no() : 0));
show(() => no());
