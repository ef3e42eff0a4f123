// audio() takes a URL, an item or an MCP block; anything else is an Error and no item
const attempt = (...args) => {
  try {
    audio(...args);
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
attempt("data:audio/wav;base64,AAAA");
attempt("https://host/a.mp3");
attempt("https://host/a.mp3", "high");
attempt({ audio_url: "https://host/b" });
attempt({ audio_url: "https://host/b", detail: "ignored" });
attempt({ type: "audio", data: "AAAA", mimeType: "audio/wav" });
text("refused:");
attempt();
attempt("");
attempt("data:image/png;base64,AAAA");
attempt("http://host/a.mp3");
attempt({ image_url: "https://host/a" });
attempt({ type: "image", data: "AAAA", mimeType: "image/png" });
attempt({ type: "audio", data: "AAAA", mimeType: "video/mp4" });
attempt({ type: "audio" });
for (const value of [null, 5, [], {}, Symbol("s")]) attempt(value);
