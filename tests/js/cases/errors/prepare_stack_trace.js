// Error.prepareStackTrace is ours for good: no script gets V8's call sites, or hides a place
const seen = [];
Error.prepareStackTrace = (error, sites) => {
  seen.push(sites);
  return "mine";
};
text(new Error("assigned").stack);
for (const define of [
  () => Object.defineProperty(Error, "prepareStackTrace", { value: () => "mine" }),
  () => Reflect.defineProperty(Error, "prepareStackTrace", { get: () => () => "mine" }),
  () => delete Error.prepareStackTrace,
  () => Object.freeze(Error) && "frozen",
]) {
  try {
    text(String(define()));
  } catch (error) {
    text(error);
  }
}
text(new Error("defined").stack);
class Sub extends Error {
  static prepareStackTrace() {
    return "sub";
  }
}
text(new Sub("of a class").stack);
const { get, set } = Object.getOwnPropertyDescriptor(Error, "prepareStackTrace");
text([get.name, set.name, Object.isFrozen(get()), String(set.call(Error, 1))]);
for (const args of [[], [1, 2], [new Error("given"), []], [new Error("given"), [{}]], [{}, [new Proxy({}, {})]]]) {
  try {
    text(get()(...args));
  } catch (error) {
    text(error);
  }
}
text(seen);
