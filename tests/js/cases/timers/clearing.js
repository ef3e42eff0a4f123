// clearTimeout() of any timer, in any order, also from within one; unknown ids are harmless
// fire all
const ids = [];
for (let i = 0; i < 10; i++) ids.push(setTimeout(() => text(`timer ${i}`), 100000 + i * 10000));
clearTimeout(ids[0]);
clearTimeout(ids[9]);
clearTimeout(ids[4]);
clearTimeout(ids[4]);
for (const id of [undefined, null, 0, -1, 999, "x", {}, Symbol("s"), NaN, 5n]) clearTimeout(id);
clearTimeout();
setTimeout(() => {
  text("clears 2, 3 and itself");
  clearTimeout(ids[2]);
  clearTimeout(ids[3]);
  clearTimeout(own);
}, 115000);
const own = setTimeout(() => {
  text("clears what is next");
  clearTimeout(ids[6]);
}, 155000);
const moved = () => (
  ids.push(setTimeout(moved, 1000000)),
  text("moves on"),
  ids.length > 12 && clearTimeout(ids.at(-1))
);
setTimeout(moved, 170000);
await new Promise((go) => setTimeout(go, 10000000));
text(setTimeout(() => {}, 1));
