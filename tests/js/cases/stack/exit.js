// where the stack ends exit() ends the script, or throws and nothing has happened; it is never half done
const down = () => {
  try {
    down();
  } catch {
    // the stack ends here
  }
  try {
    exit();
  } catch {
    // on this level there is no room for it
  }
};
down();
text("never");
