// code that runs while an input is written may do everything: its own calls come first
// echo all
const log = [];
const input = {
  toJSON() {
    text("inside");
    tools.echo({ inner: 1 }).then(() => log.push("inner 1"));
    store("k", { toJSON: () => (tools.echo({ inner: 2 }).then(() => log.push("inner 2")), 5) });
    setTimeout(() => {}, { valueOf: () => (notify("in valueOf"), 1) });
    content({
      type: "text",
      get text() {
        text("in a block");
        return "block";
      },
    });
    return { outer: true };
  },
};
text(await tools.echo(input));
text(log);
text({ toJSON: () => (text("inner text"), "outer text") });
