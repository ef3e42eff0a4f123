// Loaded among the files of runtime_js, behind the primordials: it knows what is theirs, replaces one builtin after the
// other for the test, and tells what a replacement was given that no script may have.
(function (core) {
  "use strict";

  const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { primordials } = core;
  const nativeMap = Map;
  const nativeSet = Set;
  const nativePromise = Promise;
  const uncurry = Function.prototype.bind.bind(Function.prototype.call);
  const setAdd = uncurry(Set.prototype.add);
  const setHas = uncurry(Set.prototype.has);
  const setEach = uncurry(Set.prototype.forEach);
  const textOf = uncurry(Function.prototype.toString);
  const includes = uncurry(String.prototype.includes);
  const tagOf = getOwnPropertyDescriptor(getPrototypeOf(Int8Array.prototype), Symbol.toStringTag).get;
  const stringOf = String;
  const { isArray } = Array;
  const { stringify } = JSON;

  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  const ours = new nativeSet();
  const mark = (value) => {
    if (isObject(value)) setAdd(ours, value);
    return value;
  };

  // Everything that the runtime makes for itself goes through one of these.
  const marking = (constructor) =>
    new Proxy(constructor, { __proto__: null, construct: (target, args) => mark(construct(target, args)) });
  for (const name of ["Map", "Set", "WeakMap", "SharedArrayBuffer", "Int32Array", "Uint16Array", "Uint8Array"]) {
    primordials[name] = marking(primordials[name]);
  }
  const { list } = core;
  core.list = () => mark(list());
  core.newPromise = (executor) => new nativePromise((resolve, reject) => executor(mark(resolve), mark(reject)));
  for (const name of ["MapPrototypeSet", "WeakMapPrototypeSet"]) {
    const set = primordials[name];
    primordials[name] = (map, key, value) => set(map, key, mark(value));
  }
  mark(core);
  mark(primordials);

  // Every property that holds a builtin function, in an order that is the same in every isolate.
  const roots = () => [
    globalThis,
    [][Symbol.iterator](),
    new nativeMap().entries(),
    new nativeSet().values(),
    ""[Symbol.iterator](),
    "".matchAll(/a/g),
    function* () {},
    async function* () {},
    async () => {},
    (function* () {})(),
    (async function* () {})(),
    Iterator.from({ next() {} }),
    [].values().map((each) => each),
    new Error(),
    Promise.resolve(),
  ];
  const isNative = (value) => typeof value === "function" && includes(textOf(value), "[native code]");
  core.targets = () => {
    const queue = roots().map((root, i) => [root, i === 0 ? "" : `#${i}`]);
    const known = new nativeSet(queue.map(([root]) => root));
    const targets = [];
    const visit = (value, path) => {
      if (!isObject(value) || known.has(value) || (typeof value === "function" && !isNative(value))) return;
      known.add(value);
      queue.push([value, path]);
    };
    for (const [holder, path] of queue) {
      visit(getPrototypeOf(holder), `${path}.__proto__`);
      for (const key of ownKeys(holder)) {
        const property = getOwnPropertyDescriptor(holder, key);
        const label = path === "" ? stringOf(key) : `${path}.${stringOf(key)}`;
        for (const part of ["value", "get", "set"]) {
          visit(property[part], label);
          if (isNative(property[part]) && property.configurable) targets.push({ holder, key, part, label });
        }
      }
    }
    return targets;
  };
  core.labels = () =>
    stringify(core.targets().map(({ label, part }) => (part === "value" ? label : `${part} ${label}`)));

  const given = new nativeSet();
  const note = (value) => {
    if (isObject(value)) setAdd(given, value);
  };
  class Tampered extends Error {
    name = "Tampered";
  }

  const shared = new nativeSet(); // texts of our functions that a script has in its hands
  const share = (value) => {
    if (typeof value === "function") setAdd(shared, textOf(value));
  };

  // A function in place of `original`, which throws, or notes what it is given and goes on to the original.
  const replacement = (original, label, throws) =>
    function (...args) {
      if (throws) throw new Tampered(label);
      note(this);
      note(new.target);
      for (let i = 0; i < args.length; i++) note(args[i]);
      return new.target === undefined ? apply(original, this, args) : construct(original, args, new.target);
    };

  core.tamper = (numbers, throws) => {
    const targets = core.targets();
    for (let i = 0; i < numbers.length; i++) {
      const { holder, key, part, label } = targets[numbers[i]];
      const property = getOwnPropertyDescriptor(holder, key);
      const made = replacement(property[part], label, throws);
      if (typeof property[part].prototype === "object") made.prototype = property[part].prototype;
      setAdd(shared, textOf(made));
      defineProperty(holder, key, { __proto__: null, ...property, [part]: made });
    }
  };

  core.shared = () => {
    for (const key of ownKeys(globalThis)) share(globalThis[key]);
    const { tools, as_settled } = globalThis;
    for (const key of ownKeys(tools)) share(tools[key]);
    const iterator = as_settled([]);
    for (const key of ownKeys(iterator)) share(iterator[key]);
    const call = tools[ownKeys(tools)[0]](5);
    share(call.then);
    call.then(undefined, () => {});
  };

  const isLeak = (value, source) => {
    if (setHas(ours, value) || value === core.limits) return true;
    if (typeof value === "function") {
      const text = textOf(value);
      return !includes(text, "[native code]") && !includes(source, text) && !setHas(shared, text);
    }
    if (apply(tagOf, value, []) !== undefined) return true; // the script makes no typed array
    // Nor anything without a prototype; of ours it has `tools` and the iterators of as_settled().
    return getPrototypeOf(value) === null && value !== globalThis.tools && value.next === undefined;
  };

  // What a replacement was given and must not have been, as JSON.
  core.leaks = (source) => {
    const found = [];
    setEach(given, (value) => {
      if (isLeak(value, source)) {
        found[found.length] =
          typeof value === "function" ? textOf(value) : `${isArray(value)} ${ownKeys(value).length}`;
      }
    });
    return stringify(found);
  };
});
