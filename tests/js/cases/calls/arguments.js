// what a call takes: one object or nothing for a function, one string for a freeform tool; never a synchronous throw
// tools: echo, note:freeform
const attempt = (tool, ...args) => {
  let promise;
  try {
    promise = tools[tool](...args);
  } catch (error) {
    text(`thrown: ${error}`);
    return;
  }
  promise.catch((error) =>
    text([error instanceof Error, error.name, error.message, error.tool, error.runtime_tool_call_id]),
  );
};
const cycle = {};
cycle.self = cycle;
const { proxy, revoke } = Proxy.revocable({}, {});
revoke();
const no = () => {
  throw new RangeError("its own");
};
const wrong = [null, "x", 5, true, 5n, Symbol("s"), () => 1, class {}, [1], [], new Date(0), cycle, { n: 5n }];
wrong.push(
  { toJSON: no },
  { toJSON: () => [1] },
  { toJSON: () => undefined },
  { toJSON: () => "s" },
  {
    get a() {
      return no();
    },
  },
);
wrong.push(proxy, new Proxy([], {}), new Proxy({}, { ownKeys: no }), new String("s"), new Number(5), JSON.rawJSON("5"));
wrong.push(
  {
    toJSON() {
      throw undefined;
    },
  },
  {
    toJSON() {
      throw { message: { deep: 1 } };
    },
  },
  Object(1n),
);
for (const value of wrong) attempt("echo", value);
await null;
await null;
text("freeform");
for (const value of [undefined, null, 5, {}, [], new String("s"), Symbol("s")]) attempt("note", value);
attempt("note");
await null;
await null;
text("accepted");
attempt("note", "");
attempt("note", "abc \ud800\n😀");
attempt("echo");
attempt("echo", undefined);
attempt("echo", {});
attempt("echo", { a: undefined, b: () => 1, c: null, d: NaN, e: -0, f: 2 ** 53 + 1, g: Symbol("s"), h: new Date(0) });
attempt("echo", { z: 1, a: 2, 1: 3 }, "ignored", no);
attempt("echo", JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'));
attempt("echo", Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } }));
attempt(
  "echo",
  new (class {
    x = 1;
    #y = 2;
    get z() {
      return this.#y;
    }
  })(),
);
attempt("echo", new Map([[1, 2]]));
attempt("echo", new Error("e"));
attempt("echo", /a/);
attempt("echo", { toJSON: () => ({ by: "toJSON" }) });
attempt("echo", new Proxy({ a: 1 }, {}));
attempt("echo", { nested: { list: [undefined, [{}]], text: "\u2028 \ud800 😀" } });
attempt("echo", globalThis);
const { echo } = tools;
echo({ detached: true });
echo.call(5, { receiver: true });
Reflect.apply(echo, null, [{ applied: true }]);
