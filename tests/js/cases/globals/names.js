// the names of the global object are those of ECMAScript and Intl, and ours; none is enumerable
const names = Reflect.ownKeys(globalThis);
const strings = names.filter((name) => typeof name === "string").sort();
for (let i = 0; i < strings.length; i += 10) text(strings.slice(i, i + 10).join(" "));
text(names.filter((name) => typeof name === "symbol").map(String));
text(Object.keys(globalThis));
const forIn = [];
for (const name in globalThis) forIn.push(name);
text(forIn);
text(Reflect.ownKeys(Object.getPrototypeOf(globalThis)).map(String));
for (const name of [
  "console",
  "WebAssembly",
  "Atomics",
  "SharedArrayBuffer",
  "queueMicrotask",
  "structuredClone",
  "setInterval",
  "fetch",
  "process",
  "require",
  "global",
  "window",
  "self",
  "gc",
  "print",
  "ShadowRealm",
  "Deno",
  "core",
  "__timer_manager",
  "__TimerManager",
]) {
  if (name in globalThis || new Function(`return typeof ${name}`)() !== "undefined") text(`there is ${name}`);
}
