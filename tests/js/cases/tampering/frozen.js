// all that can be frozen is frozen
// echo all
// fire all
for (const name of Reflect.ownKeys(globalThis)) {
  const value = globalThis[name];
  if (typeof value === "function" && value.prototype) Object.freeze(value.prototype);
  if (Object(value) === value) Object.freeze(value);
}
Object.freeze(Reflect.getPrototypeOf(async () => {}));
Object.freeze(globalThis);
text([1, new Map([[1, new Set([2])]]), new Error("e").message]);
store("k", { a: 1 });
text(load("k"));
setTimeout(() => text("timer"), 1);
text(await tools.echo({ n: 1 }));
for await (const { value } of as_settled([tools.echo({ n: 2 }), 3])) text(value);
await tools.echo(5).catch((error) => text([error.name, error.message, error.tool]));
await new Promise((go) => setTimeout(go, 5));
throw Object.assign(new Error("end"), { code: 1 });
