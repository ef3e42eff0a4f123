// where the stack ends a long text is written as a whole or not at all: no part of it is taken for that of another
const above = (action, ...pad) => {
  let done = false;
  let refused = 0;
  const down = (...args) => {
    try {
      down(...args);
    } catch {
      // the stack ends here; on the way up there is a little more of it at every level
    }
    if (done) return;
    try {
      action();
      done = true;
    } catch {
      refused++;
    }
  };
  down(...pad);
  return refused > 0;
};
const long = "x".repeat(100000) + "中".repeat(100000);
for (let k = 0; k < 6; k++) text(above(() => text(long), ...new Array(k).fill(0)));
text(above(() => notify(long)));
text(above(() => content({ type: "text", text: long })));
text(above(() => store("k", long)));
text(load("k") === long);
text(above(() => image(`data:image/png,${long}`)));
text("end");
