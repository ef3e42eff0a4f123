// Captures every intrinsic that the runtime uses, before any script runs. The later files take what they need from
// here and never look anything up on a prototype, so a script that replaces a builtin does not reach them.
(function (core) {
  "use strict";

  const { apply, defineProperty, getOwnPropertyDescriptor, get, getPrototypeOf, ownKeys } = Reflect;
  const uncurryThis = Function.prototype.bind.bind(Function.prototype.call);
  const getter = (prototype, name) => uncurryThis(getOwnPropertyDescriptor(prototype, name).get);

  // A call site is what V8 hands to Error.prepareStackTrace; its class has no global name.
  Error.prepareStackTrace = (_error, sites) => sites;
  const callSite = getPrototypeOf(new Error().stack[0]);
  delete Error.prepareStackTrace;

  core.primordials = {
    __proto__: null,
    ArrayFrom: Array.from.bind(Array),
    ArrayIsArray: Array.isArray,
    AsyncFunction: (async () => {}).constructor,
    AtomicsLoad: Atomics.load,
    AtomicsStore: Atomics.store,
    AtomicsWait: Atomics.wait,
    CallSiteGetColumnNumber: uncurryThis(callSite.getColumnNumber),
    CallSiteGetLineNumber: uncurryThis(callSite.getLineNumber),
    CallSiteGetScriptNameOrSourceURL: uncurryThis(callSite.getScriptNameOrSourceURL),
    CallSiteIsAsync: uncurryThis(callSite.isAsync),
    CallSiteToString: uncurryThis(callSite.toString),
    DateNow: Date.now,
    Error,
    ErrorCaptureStackTrace: Error.captureStackTrace,
    ErrorIsError: Error.isError,
    Function,
    FunctionPrototypeHasInstance: uncurryThis(Function.prototype[Symbol.hasInstance]),
    Int32Array,
    JSONParse: JSON.parse,
    JSONRawJSON: JSON.rawJSON,
    JSONStringify: JSON.stringify,
    Map,
    MapPrototypeDelete: uncurryThis(Map.prototype.delete),
    MapPrototypeForEach: uncurryThis(Map.prototype.forEach),
    MapPrototypeGet: uncurryThis(Map.prototype.get),
    MapPrototypeGetSize: getter(Map.prototype, "size"),
    MapPrototypeHas: uncurryThis(Map.prototype.has),
    MapPrototypeSet: uncurryThis(Map.prototype.set),
    MathMax: Math.max,
    MathMin: Math.min,
    ObjectCreate: Object.create,
    ObjectFreeze: Object.freeze,
    ObjectSetPrototypeOf: Object.setPrototypeOf,
    Promise,
    PromisePrototypeThen: uncurryThis(Promise.prototype.then),
    PromiseResolve: Promise.resolve.bind(Promise),
    ReflectApply: apply,
    ReflectDefineProperty: defineProperty,
    ReflectDeleteProperty: Reflect.deleteProperty,
    ReflectGet: get,
    ReflectGetOwnPropertyDescriptor: getOwnPropertyDescriptor,
    ReflectOwnKeys: ownKeys,
    Set,
    SetPrototypeAdd: uncurryThis(Set.prototype.add),
    SetPrototypeDelete: uncurryThis(Set.prototype.delete),
    SetPrototypeForEach: uncurryThis(Set.prototype.forEach),
    SetPrototypeGetSize: getter(Set.prototype, "size"),
    SetPrototypeHas: uncurryThis(Set.prototype.has),
    SharedArrayBuffer,
    SharedArrayBufferPrototypeGetByteLength: getter(SharedArrayBuffer.prototype, "byteLength"),
    StringPrototypeCharCodeAt: uncurryThis(String.prototype.charCodeAt),
    StringPrototypeIsWellFormed: uncurryThis(String.prototype.isWellFormed),
    StringPrototypeIndexOf: uncurryThis(String.prototype.indexOf),
    StringPrototypeLastIndexOf: uncurryThis(String.prototype.lastIndexOf),
    StringPrototypeSlice: uncurryThis(String.prototype.slice),
    StringPrototypeStartsWith: uncurryThis(String.prototype.startsWith),
    StringPrototypeToLowerCase: uncurryThis(String.prototype.toLowerCase),
    StringPrototypeToWellFormed: uncurryThis(String.prototype.toWellFormed),
    StringPrototypeTrim: uncurryThis(String.prototype.trim),
    SymbolAsyncIterator: Symbol.asyncIterator,
    SymbolPrototypeToString: uncurryThis(Symbol.prototype.toString),
    SymbolToStringTag: Symbol.toStringTag,
    TypeError,
    Uint16Array,
    Uint8Array,
    WeakMap,
    WeakMapPrototypeGet: uncurryThis(WeakMap.prototype.get),
    WeakMapPrototypeSet: uncurryThis(WeakMap.prototype.set),
    globalThis,
  };

  // A list without a prototype: no accessor that a script puts on Array.prototype can see what is written to it.
  const { setPrototypeOf } = Object;
  core.list = () => setPrototypeOf([], null);
});
