// a `then` on Object.prototype meets what the language hands to it, and the script ends all the same
// deliver 1 ok {"n": 1}
// deliver 2 ok [2]
const seen = [];
Object.defineProperty(Object.prototype, "then", {
  configurable: true,
  get() {
    seen.push(Array.isArray(this) ? "array" : Reflect.ownKeys(this).join());
    return undefined;
  },
});
text(await tools.echo({}));
text(await tools.echo({}));
for await (const { value } of as_settled([5])) text(value);
text(seen);
Object.defineProperty(Object.prototype, "then", {
  get() {
    throw new Error("from then");
  },
});
text("before");
await {};
