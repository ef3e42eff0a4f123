// what the host evaluates looks no name up that a Proxy behind the global object could see
// echo all
// fire all
const asked = new Set();
const seen = (trap) => (_, key) => (asked.add(`${trap} ${String(key)}`), undefined);
const behind = new Proxy({}, { has: seen("has"), get: seen("get"), getOwnPropertyDescriptor: seen("descriptor") });
text(Reflect.setPrototypeOf(globalThis, behind));
text(Reflect.setPrototypeOf(Reflect.getPrototypeOf(globalThis), behind));
setTimeout(() => text("timer"), 1);
text(await tools.echo({ n: 1 }));
text([1, new Map([[1, 2]])]);
await new Promise((go) => setTimeout(go, 2));
try {
  new Function(`"use strict"; return undeclared`)();
} catch (error) {
  text(error.message);
}
text([...asked].sort());
