// Nothing of what took the types out is left in the realm, and its own errors do not show.
const names: string[] = Reflect.ownKeys(globalThis).map(String);
text(names.length);
text([RegExp.lastMatch, RegExp.input, RegExp.lastParen, RegExp.leftContext, RegExp.rightContext, RegExp.$1, RegExp.$9]);
text(Error.stackTraceLimit);
const seen: Set<unknown> = new Set<unknown>();
const marks: string[] = [];
const walk = (value: any, name: string): void => {
  if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value)) return;
  seen.add(value);
  for (const key of Reflect.ownKeys(value)) {
    const it = Reflect.getOwnPropertyDescriptor(value, key)!;
    marks.push(`${name}.${String(key)} ${it.writable} ${it.configurable} ${it.enumerable} ${typeof it.value}`);
    for (const part of [it.value, it.get, it.set] as unknown[]) walk(part, `${name}.${String(key)}`);
  }
  walk(Reflect.getPrototypeOf(value), `${name}.__proto__`);
};
const own = new Set(["seen", "marks", "walk"]);
for (const name of names) if (!own.has(name)) walk((globalThis as any)[name], name);
text(marks.length);
text([...marks.join("\n")].reduce((hash: number, unit) => (hash * 31 + unit.codePointAt(0)!) | 0, 7));
text(typeof babel + typeof types + typeof strip + typeof parse + typeof Position);
const stack: string = (() => new Error("e").stack)()!;
text(stack);
text((function f(a: number, b?: string): void {}).toString());
