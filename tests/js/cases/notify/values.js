// notify() says what text() would; blank text is an Error
const attempt = (...args) => {
  try {
    text(`returned ${notify(...args)}`);
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
attempt("n");
attempt(" padded ");
attempt({ a: 1 });
attempt();
attempt(null);
attempt(0);
attempt(new Map([[1, 2]]));
attempt(new Error("e"));
attempt(Symbol("s"));
attempt({
  toJSON() {
    throw 1;
  },
});
attempt("a\nb");
attempt("😀".repeat(40000));
text("refused:");
for (const blank of ["", " ", "\n\t\r", "\u00a0\u2003\ufeff", "\u2028"]) attempt(blank);
