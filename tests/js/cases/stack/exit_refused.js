// exit() that was refused where the stack ends has not ended the script: what it does afterwards counts
let depth = 0;
let refused = 0;
const down = () => {
  depth++;
  try {
    down();
  } catch {
    // the stack ends here; on the levels that are its last twentieth there is no room for exit()
  }
  if (refused < depth / 20) {
    try {
      exit();
    } catch {
      refused++;
    }
  }
};
down();
text(refused > 0);
text("went on");
throw new Error("its own end");
