// a stack that is asked for where the stack ends is ours or none, never one that V8 has formatted alone
const seen = new Set();
let refused = 0;
const down = (...pad) => {
  const error = new Error("m");
  try {
    down(...pad);
  } catch {
    // the stack ends here
  }
  if (seen.size < 2 && refused < 5000) {
    try {
      seen.add(error.stack.replace(/(\n {4}at down .*)+/, "\n    at down, many times"));
    } catch {
      refused++;
    }
  }
};
for (let k = 0; k < 5; k++) down(...new Array(k).fill(0));
text(refused > 0);
for (const stack of seen) text(stack);
