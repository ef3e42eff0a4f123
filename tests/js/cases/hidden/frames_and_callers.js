// no function of ours is found by looking at who called
// fire all
const sloppy = (body) => new Function(body);
const seen = [];
globalThis.look = sloppy(`
  const me = arguments.callee;
  return [String(me.caller), me.arguments && me.arguments.length, this === globalThis];
`);
const look = () => seen.push(globalThis.look());
setTimeout(
  sloppy("globalThis.inTimer = [String(arguments.callee.caller), this === globalThis, arguments.length]"),
  0,
  1,
  2,
);
text({ toJSON: sloppy("return ['toJSON', String(arguments.callee.caller)]") });
text(Object.defineProperty({}, "a", { enumerable: true, get: sloppy("return String(arguments.callee.caller)") }));
store("k", { toJSON: sloppy("return String(arguments.callee.caller)") });
text(load("k"));
tools.echo({ toJSON: sloppy("return {by: String(arguments.callee.caller)}") });
const error = new Error("m");
Object.defineProperty(error, "message", { get: sloppy("return 'called by ' + arguments.callee.caller") });
text(error);
as_settled({
  [Symbol.iterator]: sloppy("globalThis.byIterator = String(arguments.callee.caller); return [].values()"),
});
text(globalThis.byIterator);
for await (const { value } of as_settled([{ then: sloppy("arguments[0](String(arguments.callee.caller))") }]))
  text(value);
look();
text(seen);
for (const f of [text, tools.echo, setTimeout, as_settled([]).next, tools.echo({}).then]) {
  for (const name of ["caller", "arguments", "callee"]) {
    try {
      text(String(f[name]));
    } catch (problem) {
      text(problem.message);
    }
  }
}
await new Promise((go) => setTimeout(go, 5));
text(globalThis.inTimer);
