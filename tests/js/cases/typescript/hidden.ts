// Nothing of what took the types out is left in the realm, and its own errors do not show.
const names: string[] = Reflect.ownKeys(globalThis).map(String);
text(names.length);
text([RegExp.lastMatch, RegExp.input, RegExp.lastParen, RegExp.leftContext, RegExp.rightContext, RegExp.$1, RegExp.$9]);
text(Error.stackTraceLimit);
text(typeof babel + typeof types + typeof strip + typeof parse + typeof Position);
const stack: string = (() => new Error("e").stack)()!;
text(stack);
text((function f(a: number, b?: string): void {}).toString());
