// what our globals look like
// tools: echo, note:freeform, __proto__, constructor, toString, _fa
text(JSON.stringify(tools));
text(tools);
text(Object.keys(tools));
text(Reflect.getPrototypeOf(tools));
text([typeof tools.hasOwnProperty, "toString" in tools, "valueOf" in tools, tools.unknown]);
text(ALL_TOOLS);
text([Array.isArray(ALL_TOOLS), Object.isFrozen(ALL_TOOLS), ALL_TOOLS.every(Object.isFrozen)]);
text([tools.echo.name, tools.echo.length, tools["__proto__"].name, String(tools.constructor.prototype)]);
for (const name of ["text", "image", "store", "setTimeout", "as_settled", "exit"]) {
  const value = globalThis[name];
  text([name, value.name, value.length, Object.getPrototypeOf(value) === Function.prototype, Reflect.ownKeys(value)]);
  try {
    new value();
  } catch (error) {
    text(error.message);
  }
}
try {
  new tools.echo();
} catch (error) {
  text(error.message);
}
try {
  tools.ech({});
} catch (error) {
  text(error);
}
try {
  tools.added = 1;
} catch (error) {
  text(error.message);
}
try {
  ALL_TOOLS.push(1);
} catch (error) {
  text(error.message);
}
text(await tools);
