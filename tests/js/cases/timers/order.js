// timers fire by time, then in the order in which they were made; microtasks run between two of them
// fire all
const log = (label) => () => {
  text(label);
  Promise.resolve().then(() => text(`microtask of ${label}`));
};
text([setTimeout(log("late"), 200000), setTimeout(log("early"), 100000), setTimeout(log("soon"), 50000)]);
for (let i = 0; i < 5; i++) setTimeout(log(`same ${i}`), 150000);
setTimeout(() => {
  text("nested");
  setTimeout(log("nested at once"), 0);
  setTimeout(log("nested later"), 10000000);
}, 100000);
await new Promise((go) => setTimeout(go, 20000000));
text("end");
