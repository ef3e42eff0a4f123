// constructors and thenables of the script get no more than the language gives them
// echo all
const given = [];
class Mine extends Promise {
  constructor(executor) {
    super((resolve, reject) => {
      given.push(`executor of ${executor.length}`);
      executor(resolve, reject);
    });
  }
  static get [Symbol.species]() {
    given.push("species");
    return Mine;
  }
}
const call = tools.echo({});
text([call.constructor, Object.getPrototypeOf(call) === Promise.prototype, Reflect.ownKeys(call)]);
for (const change of [
  () => (call.then = 1),
  () => (call.constructor = Mine),
  () => Object.defineProperty(call, "then", { value: 1 }),
  () => delete call.then,
]) {
  try {
    text(String(change()));
  } catch (error) {
    text(error.message);
  }
}
text(Object.setPrototypeOf(call, Mine.prototype) === call);
call.finally(() => text("finally"));
const settled = as_settled([
  Mine.resolve(1),
  call,
  new Mine((go) => go(3)),
  { then: (go) => given.push(typeof go) && go(4) },
]);
Object.defineProperty(Promise, Symbol.species, { get: () => given.push("Promise species") && Mine });
Promise.prototype.constructor = Mine;
for await (const { index, value } of settled) text([index, value]);
text(await Mine.resolve(tools.echo({ second: true })));
text(await Mine.all([tools.echo({ third: true })]));
text([...new Set(given)].sort());
text(await Mine.resolve("end"));
