// text() of a function is its name, or "anonymous"
text(function named() {});
text(() => 1);
text(async function later() {});
text(function* generator() {});
text(class Some {});
text(class {});
const arrow = () => 1;
text(arrow);
text({ method() {} }.method);
text(
  Object.getOwnPropertyDescriptor(
    {
      get size() {
        return 1;
      },
    },
    "size",
  ).get,
);
text(last.bind(null));
text(Math.max);
text(text);
text(tools.echo);
text(
  class {
    static name() {}
  },
);
text(Object.defineProperty(() => 1, "name", { value: 5 }));
text(
  Object.defineProperty(() => 1, "name", {
    get() {
      throw new Error("not this");
    },
  }),
);
text(Object.defineProperty(() => 1, "name", { value: "half \ud83d" }));
text(new Function("a", "return a"));
function last() {}
last.toJSON = () => "not asked";
text(last);
