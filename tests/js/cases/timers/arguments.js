// ids count from 1; delays are numbers or 0; arguments are passed on; what is no function is an Error
// fire all
const attempt = (f) => {
  try {
    text(f());
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
setTimeout(function (...args) {
  text([String(this), args, args.length]);
}, 0);
setTimeout((...args) => text(args), 0, 1, [2], undefined, "four");
setTimeout(async () => text("an async function"), 0);
setTimeout(class {}.constructor.bind(null, "globalThis.made = 1"), 0);
for (const delay of [undefined, null, -5, NaN, Infinity, -Infinity, "1000", "x", {}, [], 2 ** 31]) {
  attempt(() => setTimeout(text, delay, `delay ${String(delay)}`));
}
for (const delay of [
  5n,
  Symbol("s"),
  {
    valueOf() {
      throw new RangeError("its own");
    },
  },
]) {
  attempt(() => setTimeout(text, delay));
}
for (const callback of [undefined, null, "text(1)", {}, 5]) attempt(() => setTimeout(callback, 0));
attempt(() => setTimeout());
attempt(() => setTimeout(new Proxy(() => text("a proxy"), {}), 0));
await new Promise((go) => setTimeout(go, 100000));
