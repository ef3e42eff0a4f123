// What hidden.ts is held against: the same without types.
const names = Reflect.ownKeys(globalThis).map(String);
text(names.length);
text([RegExp.lastMatch, RegExp.input, RegExp.lastParen, RegExp.leftContext, RegExp.rightContext, RegExp.$1, RegExp.$9]);
text(Error.stackTraceLimit);
