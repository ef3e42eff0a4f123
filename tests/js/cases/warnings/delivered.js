// failures that come from the tool are named with its text, whoever made the call
// tools: echo, other
// deliver 1 error "nobody cares"
// deliver 2 error "handled"
// deliver 3 ok 1
// deliver 4 error "a chain\nof two lines \ud800"
// deliver 5 error "last"
const p = tools.other({});
tools.echo({}).catch(() => text("handled"));
const third = tools.echo({}).then(() => {
  throw new Error("of the script: not named");
});
tools.echo({}).then((value) => value.x);
await tools.echo({}).catch(() => {});
text([typeof p, typeof third]);
