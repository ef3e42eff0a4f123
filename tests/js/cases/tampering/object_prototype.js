// what a script puts on Object.prototype gets nothing of ours: no value, no descriptor, no iterator result of our making
// echo all
// fire all
const taken = [];
const names = ["get", "set", "value", "writable", "enumerable", "configurable", "constructor"];
names.push("handled", "links", "resolve", "reject", "error", "message", "stack", "frames", "line", "column", "text");
names.push(
  "name",
  "status",
  "due",
  "id",
  "callback",
  "args",
  "limits",
  "source",
  "stored",
  "tools",
  "rehearsal",
  "type",
);
names.push(
  "image_url",
  "detail",
  "data",
  "mimeType",
  "host",
  "kinds",
  "list",
  "raw",
  "rawJSON",
  "done",
  "index",
  "cause",
);
for (const name of names) {
  Object.defineProperty(Object.prototype, name, {
    __proto__: null,
    configurable: true,
    get() {
      taken.push([name, typeof this === "object" && Reflect.ownKeys(this).join(",")]);
      return undefined;
    },
    set(value) {
      taken.push([name, "set", typeof value]);
      Object.defineProperty(this, name, {
        __proto__: null,
        value,
        writable: true,
        enumerable: true,
        configurable: true,
      });
    },
  });
}
text([1, { a: [2] }, new Map([[1, { b: 1 }]])]);
text(Symbol("s"));
notify("note");
store("k", { v: [1] });
text(load("k").v);
image("https://host/a.png");
content([{ __proto__: null, type: "text", text: "block" }]);
setTimeout(() => text("timer"), 1);
text(await tools.echo({ list: [1] }));
for await (const { index, value } of as_settled([tools.echo({ n: 2 }), Promise.reject(3)])) text([index, value]);
try {
  await tools.echo(5);
} catch (error) {
  text(error);
}
await new Promise((go) => setTimeout(go, 2));
const seen = JSON.stringify(taken);
for (const name of names) delete Object.prototype[name];
text(seen);
Object.prototype.message = "inherited";
throw new Error();
