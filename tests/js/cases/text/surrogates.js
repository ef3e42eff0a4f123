// text() has U+FFFD where a surrogate stands alone, and in JSON its escape
text("lone \ud83d");
text("\udc00 first");
text("\ud83d\ud83d\ude00");
text("\ude00\ud83d");
text({ k: "\udc00" });
text({ "\ud800": 1 });
text([["\udbff"]]);
text(new Map([["\ud800", "😀"]]));
text(Symbol("\ud800"));
text(new Error("\ud800").message);
text({ toJSON: () => "\ud800" });
text("😀");
notify("\ud83d!");
image("https://host/\ud83d");
content({ type: "text", text: "block \ud83d" });
