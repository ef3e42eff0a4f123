// A script that takes its time. Whoever waits for it gets what it has said so far, and may come back or end it.
for (let left = 20; left > 0; left--) {
  text(`${left} steps to go`);
  await new Promise((resolve) => setTimeout(resolve, 250));
}
text("done");
