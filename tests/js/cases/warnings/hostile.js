// what a script does to an error's message or to builtins changes no warning and does not stop the end
// deliver 1 error "one"
// deliver 2 error "two"
// deliver 3 error "three"
const spoil = (error, message) => Object.defineProperty(error, "message", message);
const first = tools.echo({});
first.then(() => {});
first.catch((error) => spoil(error, { get: () => exit() }));
const second = tools.echo({});
second.then(() => {});
second.catch((error) =>
  spoil(error, {
    get: () => {
      for (;;);
    },
  }),
);
const third = tools.echo({});
third.then(() => {});
await third.catch((error) => spoil(error, { value: { toJSON: () => text("in toJSON") } }));
Object.prototype.toJSON = () => "spoilt";
String.prototype.isWellFormed = String.prototype.toWellFormed = () => "spoilt";
