// long texts cross the ring in parts: wide ones, narrow ones, and both in one
text("n".repeat(3000000));
text("é".repeat(200000));
text("中".repeat(1500000));
text("n".repeat(65536));
text("n".repeat(65537));
text("n".repeat(65535) + "中");
text("n".repeat(65536) + "中");
text("中" + "n".repeat(200000));
text("n".repeat(100000) + "中" + "n".repeat(100000) + "é");
text(["中".repeat(40000), "n".repeat(40000)]);
text("end");
