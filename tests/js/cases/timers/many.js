// many timers made in any order fire in theirs
// fire all
let last = -1;
let fired = 0;
let wrong = 0;
for (let i = 0; i < 300; i++) {
  const due = 1000 + ((i * 7919) % 300) * 1000;
  const id = setTimeout(() => {
    fired++;
    if (due < last) wrong++;
    last = due;
  }, due);
  if (i % 3 === 0) clearTimeout(id);
}
await new Promise((go) => setTimeout(go, 1000000));
text([fired, wrong]);
