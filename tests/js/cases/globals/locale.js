// the world outside is the same everywhere: language en-US, all of ICU
text(new Intl.DateTimeFormat().resolvedOptions().locale);
text((1234567.891).toLocaleString());
text(new Date(0).toLocaleDateString("de", { weekday: "long", timeZone: "UTC" }));
text(new Intl.NumberFormat("hi", { style: "currency", currency: "INR" }).format(1234567));
text(["z", "ä", "a"].sort(new Intl.Collator("sv").compare));
text([..."a😀b"].length);
text("İ".toLowerCase().length);
text("ß".toLocaleUpperCase("de"));
