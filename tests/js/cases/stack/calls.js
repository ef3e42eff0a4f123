// where the stack ends a call is made and known to both sides, or to none
// echo all
const above = (action, ...pad) => {
  let result;
  let refused = 0;
  const down = (...args) => {
    try {
      down(...args);
    } catch {
      // the stack ends here
    }
    if (result !== undefined) return;
    try {
      result = action();
    } catch {
      refused++;
    }
  };
  down(...pad);
  return [refused > 0, result];
};
for (let k = 0; k < 6; k++) {
  const [refused, call] = above(() => tools.echo({ k }), ...new Array(k).fill(0));
  text(refused);
  text(await call);
}
const long = "中".repeat(100000);
const [refused, call] = above(() => tools.echo({ long }));
text(refused);
text((await call).long === long);
