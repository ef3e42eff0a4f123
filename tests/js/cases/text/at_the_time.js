// text() is taken at the time of the call, items are not merged, and microtasks write in their order
const value = { n: 1 };
text(value);
value.n = 2;
text(value);
Promise.resolve().then(() => text("microtask"));
text("before");
await null;
text("after");
Promise.resolve()
  .then(() => text("left over 1"))
  .then(() => text("left over 2"));
