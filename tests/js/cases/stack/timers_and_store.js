// where the stack ends a timer is set or not, a value is stored or not
// fire all
const above = (action, ...pad) => {
  let done = false;
  let refused = 0;
  const down = (...args) => {
    try {
      down(...args);
    } catch {
      // the stack ends here
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
for (let k = 0; k < 40; k++) {
  setTimeout(() => {}, 100000 + k);
  above(() => setTimeout(() => text(`timer ${k}`), 1000000 - k * 10000), ...new Array(k % 5).fill(0));
  above(() => store(`k${k % 5}`, k), ...new Array(k % 5).fill(0));
}
text([0, 1, 2, 3, 4].map((k) => load(`k${k}`)));
above(() => as_settled([1, 2]));
await new Promise((go) => setTimeout(go, 2000000));
text("end");
