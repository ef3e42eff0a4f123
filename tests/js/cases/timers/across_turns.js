// of two timers of the same delay the one that was made first fires first, though a turn of the host lies between them
// echo all
// fire all
const fired = [];
for (let i = 0; i < 20; i++) {
  const start = Date.now();
  while (Date.now() === start);
  setTimeout(() => fired.push(2 * i), 1000);
  await tools.echo({});
  setTimeout(() => fired.push(2 * i + 1), 1000);
}
await new Promise((go) => setTimeout(go, 1000000));
text(fired.length);
text(fired.every((each, i) => each === i));
