// code that runs while a stack is asked for finds no frame of ours, in no stack of its own
const inner = () => new Error("inner").stack;
const earlier = new Error("earlier");
const spy = (label) => {
  text(`${label}: ${inner()}`);
  text(`${label}: ${earlier.stack}`);
  return label;
};
const error = new Error("outer");
Object.defineProperty(error, "message", { get: () => spy("message") });
Object.defineProperty(error, "name", { get: () => spy("name") });
text(error.stack);
text(error);
class Named extends Error {
  get name() {
    return spy("class");
  }
}
text(new Named("m").stack);
const behind = Object.setPrototypeOf(
  new Error("behind a proxy"),
  new Proxy(Error.prototype, {
    get: (target, key) => (key === "name" ? spy("trap") : target[key]),
    getOwnPropertyDescriptor: () => spy("descriptor"),
    getPrototypeOf: () => spy("prototype"),
  }),
);
text(behind.stack);
text({ toJSON: () => inner() });
text({
  get getter() {
    return inner();
  },
});
text(
  new Proxy(
    {},
    { ownKeys: () => [inner()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) },
  ),
);
store("k", { toJSON: () => inner() });
text(load("k"));
image({
  get image_url() {
    text(inner());
    return "https://h/";
  },
});
content({
  type: "text",
  get text() {
    return inner();
  },
});
tools.echo({ toJSON: () => ({ inner: inner() }) });
setTimeout(() => text(inner()), { valueOf: () => (text(inner()), 0) });
as_settled({ [Symbol.iterator]: () => (text(inner()), [][Symbol.iterator]()) });
as_settled([
  {
    get then() {
      text(inner());
      return undefined;
    },
  },
]);
throw Object.assign(new Error("thrown"), { code: { toJSON: () => inner() } });
