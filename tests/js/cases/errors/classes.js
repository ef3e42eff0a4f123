// names and messages of an Error's class, wherever they are defined, are in its stack
class Plain extends Error {}
class Derived extends TypeError {}
class Own extends Error {
  constructor(message, code) {
    super(message);
    this.name = "Own";
    this.code = code;
  }
}
class OnPrototype extends Error {}
OnPrototype.prototype.name = "OnPrototype";
class Getter extends Error {
  get name() {
    return "Getter";
  }
}
class StaticName extends Error {
  static name = "Shown";
}
for (const Class of [Plain, Derived, Own, OnPrototype, StaticName]) {
  const error = new Class("message", 5);
  text(error);
  if (error.stack.split("\n")[0] !== String(error)) text(`${error.stack}`);
}
// V8 formats the stack by itself while no code of ours may run: a getter is asked by text(), not by `stack`.
text(new Getter("message"));
text(new Getter("message").stack);
function Old(message) {
  this.name = "Old";
  this.message = message;
  Error.captureStackTrace(this, Old);
}
Old.prototype = Object.create(Error.prototype);
text(new Old("from before classes").stack);
throw new Getter("thrown");
