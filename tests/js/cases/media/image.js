// image() takes a URL, an item or an MCP block; anything else is an Error and no item
const attempt = (...args) => {
  try {
    const result = image(...args);
    if (result !== undefined) text("returned something");
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
attempt("data:image/png;base64,AAAA");
attempt("https://host/a.png");
attempt("HTTPS://HOST/a");
attempt("DATA:IMAGE/PNG;base64,AAAA");
attempt("data:image/svg+xml,<svg/>");
for (const detail of ["auto", "low", "high", "original", null, undefined]) attempt("https://host/a", detail);
attempt({ image_url: "https://host/b" });
attempt({ image_url: "https://host/b", detail: "low" });
attempt({ image_url: "https://host/b", detail: "low" }, "high");
attempt({ image_url: "https://host/b", detail: "low" }, null);
attempt({ type: "image", data: "AAAA", mimeType: "image/png" });
attempt({ type: "image", data: "AAAA", mimeType: "image/png", detail: "high" });
attempt({ type: "image", image_url: "https://host/c" });
attempt({ type: "input_image", image_url: "https://host/c" });
text("refused:");
attempt();
attempt("");
attempt("   ");
attempt("http://host/a.png");
attempt("ftp://host/a.png");
attempt("file:///etc/passwd");
attempt("javascript:alert(1)");
attempt("data:text/html,x");
attempt("data:audio/wav;base64,AAAA");
attempt("data:imagex/png,x");
attempt("https://");
attempt("https:/host");
attempt(" https://host/a");
attempt("AAAA");
for (const value of [null, 5, true, 5n, Symbol("s"), () => 1, [], ["https://host/a"], {}, new Map()]) attempt(value);
for (const detail of ["", "medium", "AUTO", 5, {}, ["low"], true]) attempt("https://host/a", detail);
attempt({ image_url: "https://host/b", detail: "medium" });
attempt({ image_url: { url: "https://host/b" } });
attempt({ type: "image", data: "", mimeType: "image/png" });
attempt({ type: "image", data: "AAAA" });
attempt({ type: "image", data: 5, mimeType: "image/png" });
attempt({ type: "image", data: "AAAA", mimeType: "text/html" });
attempt({ type: "image", data: "AAAA", mimeType: "image" });
attempt({ type: "audio", data: "AAAA", mimeType: "audio/wav" });
attempt({ type: "image", source: { data: "AAAA" } });
attempt({
  get image_url() {
    throw new Error("getter");
  },
});
attempt(new Proxy({}, { get: () => "https://host/proxied" }));
attempt(new Proxy({}, { get: (_, key) => (key === "image_url" ? "https://host/proxied" : undefined) }));
attempt(Object("https://host/boxed"));
attempt("https://host/", { toString: () => "low" });
