// a callback that throws fails the script with its place; what it left behind still runs
// fire
// fire
setTimeout(() => text("first"), 1000);
setTimeout(() => {
  Promise.resolve().then(() => text("a microtask left behind"));
  throw new Error("in timer");
}, 2000);
setTimeout(() => text("never"), 3000);
await new Promise(() => {});
