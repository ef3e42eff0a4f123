// a warning is bounded in length
const long = {
  toJSON() {
    throw new Error("y".repeat(100000));
  },
};
tools.echo(long);
