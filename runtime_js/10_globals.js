// Leaves on the global object what ECMAScript and Intl define, by a list of what is allowed: a global that a newer
// engine brings is absent until somebody has looked at it.
(function (core) {
  "use strict";

  const { Map, MapPrototypeHas, MapPrototypeSet, ReflectDefineProperty, ReflectDeleteProperty, ReflectOwnKeys } =
    core.primordials;
  const { globalThis } = core.primordials;

  const ALLOWED = [
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "AsyncIterator",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Intl",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "Temporal",
    "TypeError",
    "URIError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "undefined",
    "unescape",
  ];

  const allowed = new Map();
  for (let i = 0; i < ALLOWED.length; i++) MapPrototypeSet(allowed, ALLOWED[i], true);
  const names = ReflectOwnKeys(globalThis);
  for (let i = 0; i < names.length; i++) {
    if (typeof names[i] === "string" && !MapPrototypeHas(allowed, names[i])) {
      ReflectDeleteProperty(globalThis, names[i]);
    }
  }

  // Define a global of ours. It can be shadowed by a script's own names, but not assigned, deleted or redefined.
  core.defineGlobal = (name, value, configurable) => {
    ReflectDefineProperty(globalThis, name, {
      __proto__: null,
      value,
      writable: false,
      enumerable: false,
      configurable: configurable === true,
    });
  };
});
