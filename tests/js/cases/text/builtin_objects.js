// text() of objects that the language makes
text(new Date(0));
text({ at: new Date(86400000) });
text(new Date(NaN));
text(/a+/giu);
text([/a/]);
text(new Uint8Array([1, 2, 3]));
text(new Float64Array([0.5, NaN]));
text(new BigInt64Array([1n, -2n]));
text(new ArrayBuffer(4));
text(new DataView(new ArrayBuffer(1)));
text(Promise.resolve(1));
text(new WeakMap());
text(new WeakSet());
text(new WeakRef({}));
text((function* () {})());
text([1, 2][Symbol.iterator]());
text(new Proxy({ a: 1 }, {}));
text(new Proxy([1, 2], {}));
text(new Proxy(function named() {}, {}));
text(globalThis);
text(Math);
text(JSON);
text(Reflect);
text(Intl);
text(
  (function () {
    return arguments;
  })(1, "two"),
);
text(new Intl.NumberFormat("de").resolvedOptions().locale);
text(Temporal.PlainDate.from("2024-02-29"));
text(JSON.rawJSON("1.0000000000000000001"));
text({ raw: JSON.rawJSON("1e1000") });
