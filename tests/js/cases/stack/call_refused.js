// a call that was refused where the stack ends is none: nobody waits for its result
const long = "x".repeat(100000);
let refused = 0;
const down = () => {
  try {
    down();
  } catch {
    // the stack ends here; there is no room for a long record on these levels
  }
  if (refused < 100) {
    try {
      tools.echo({ long });
    } catch {
      refused++;
    }
  }
};
down();
text(refused);
await new Promise(() => {});
