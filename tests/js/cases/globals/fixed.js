// our globals cannot be assigned, deleted, redefined or added to, in strict code or sloppy
const ours = ["tools", "ALL_TOOLS", "text", "image", "audio", "content", "store", "load", "notify", "yield_control"];
ours.push("exit", "setTimeout", "clearTimeout", "as_settled");
const outcome = (f) => {
  try {
    const result = f();
    return typeof result === "object" || typeof result === "function" ? typeof result : result;
  } catch (error) {
    return error.name;
  }
};
const same = {};
for (const name of ours) {
  const value = globalThis[name];
  const found = [
    outcome(() => (globalThis[name] = 1)),
    outcome(() => new Function(`"use strict"; ${name} = 1`)()),
    outcome(() => new Function(`${name} = 1; return ${name} === globalThis.${name}`)()),
    outcome(() => delete globalThis[name]),
    Reflect.deleteProperty(globalThis, name),
    Reflect.set(globalThis, name, 1),
    Reflect.defineProperty(globalThis, name, { value: 1 }),
    Reflect.defineProperty(globalThis, name, { writable: true }),
    outcome(() => (0, eval)(`var ${name} = 1`)),
    outcome(() => (0, eval)(`function ${name}() {}`)),
    outcome(() => (0, eval)(`let ${name} = 1`)),
    outcome(() => (value.added = 1)),
    outcome(() => Object.setPrototypeOf(value, null)),
    Object.isFrozen(value),
    globalThis[name] === value,
  ];
  (same[found.join(" ")] ??= []).push(name);
}
for (const [found, names] of Object.entries(same)) text(`${names.join(", ")}: ${found}`);
text(JSON.stringify(Object.getOwnPropertyDescriptor(globalThis, "text")));
