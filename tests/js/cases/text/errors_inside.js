// text() of an Error is its stack, also inside other values
text(new Error("boom"));
text(new TypeError(""));
text([new RangeError("in a list")]);
text({ error: new SyntaxError("in an object") });
text(new Map([["k", new Error("in a map")]]));
text(Object.assign(new Error("with toJSON"), { toJSON: () => ({ code: 1 }) }));
text([Object.assign(new Error("with toJSON"), { toJSON: () => ({ code: 1 }) })]);
text(new Proxy(new Error("behind a proxy"), {}));
text(Object.create(Error.prototype));
text(Object.create(new Error("only inherits")));
text(Error.prototype);
text(new Error("with a cause", { cause: new Error("not shown by text") }));
try {
  null.x;
} catch (error) {
  text(error);
}
const frozen = Object.freeze(new Error("frozen"));
text(frozen);
