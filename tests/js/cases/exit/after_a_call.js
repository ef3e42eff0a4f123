// exit() when the result of a call comes, with others under way
// deliver 2 ok 2
const late = async () => {
  try {
    await tools.echo({ n: 2 });
  } finally {
    text("never");
  }
};
late();
await tools.echo({ n: 1 });
exit();
