// Function.prototype.call, apply, bind, Symbol.hasInstance and toString replaced
// echo all
// fire all
const recorded = [];
for (const name of ["call", "apply", "bind", "toString"]) {
  Function.prototype[name] = function () {
    recorded.push(name);
    throw new Error(name);
  };
}
for (const value of [Map, Set, Error, Array, Promise]) {
  Object.defineProperty(value, Symbol.hasInstance, { value: () => recorded.push("hasInstance") });
}
Object.setPrototypeOf(Function.prototype, null);
text([new Map([[1, 2]]), new Set([3]), () => 4]);
text(() => 5);
store("k", { a: [1] });
text(load("k"));
notify("n");
setTimeout(() => text("timer"), 1);
text(await tools.echo({ n: 1 }));
for await (const { value } of as_settled([tools.echo({ n: 2 })])) text(value);
await new Promise((go) => setTimeout(go, 2));
text(recorded);
throw new Error("end", { cause: new Error("cause") });
