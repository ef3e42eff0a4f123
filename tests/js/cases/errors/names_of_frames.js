// what V8 reads to name a frame runs no code of the script: names, receivers, tags
const spy = (label) => (text(`ran: ${label}`), label);
const traps = {};
for (const trap of Reflect.ownKeys(Reflect)) {
  if (typeof trap === "string") traps[trap] = (...args) => (spy(trap), Reflect[trap](...args));
}
const make = () => new Error("m").stack.split("\n").slice(0, 2).join(" ");
const receiver = Object.create(new Proxy({ method: make }, traps), {
  constructor: { get: () => spy("constructor") },
  [Symbol.toStringTag]: { get: () => spy("tag") },
});
Object.defineProperty(make, "name", { get: () => spy("name") });
Object.defineProperty(make, "toString", { get: () => spy("toString") });
text(make.call(receiver));
text(make.call(Object.setPrototypeOf([], new Proxy({}, traps))));
const through = new Proxy(
  { method: make },
  { get: (target, key) => target[key], getPrototypeOf: () => spy("prototype") },
);
text(through.method());
class Tagged {
  get [Symbol.toStringTag]() {
    return spy("class tag");
  }
  static get name() {
    return spy("class name");
  }
  method() {
    return make.call(this);
  }
}
text(new Tagged().method());
