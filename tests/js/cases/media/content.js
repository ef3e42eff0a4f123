// content() takes MCP blocks, all of them or none
const attempt = (...args) => {
  try {
    content(...args);
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
const words = { type: "text", text: "words" };
const picture = { type: "image", data: "AAAA", mimeType: "image/png" };
attempt([words, picture, { type: "audio", data: "BBBB", mimeType: "audio/wav" }]);
attempt(words);
attempt(picture);
attempt([]);
attempt([{ type: "text", text: "" }]);
attempt({ type: "resource_link", uri: "file:///a", name: "a" });
attempt([{ type: "resource", resource: { uri: "file:///a", text: "t" } }]);
attempt({ ...words, annotations: { audience: ["user"] }, _meta: {} });
text("refused:");
attempt();
attempt(null);
attempt("words");
attempt({ content: [words] });
attempt({ content: [words], isError: false, structuredContent: {} });
attempt([words, { type: "video" }]);
attempt([words, "words"]);
attempt([words, null]);
attempt([[words]]);
attempt([words, { type: "text" }]);
attempt([words, { type: "text", text: 5 }]);
attempt([words, { ...picture, mimeType: "text/html" }]);
attempt({ type: "resource", toJSON: () => undefined });
attempt({ type: "resource", toJSON: () => 5 });
attempt({ type: "resource", big: 1n });
attempt({
  type: "text",
  get text() {
    throw new Error("getter");
  },
});
attempt({ length: 1, 0: words });
attempt(new Set([words]));
const { proxy, revoke } = Proxy.revocable([], {});
revoke();
attempt(proxy);
attempt(new Proxy([words], {}));
