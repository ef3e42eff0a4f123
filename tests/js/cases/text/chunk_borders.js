// a character of two units is never cut where one part of a long text ends and the next begins
const CHUNK = 65536;
for (const before of [CHUNK - 2, CHUNK - 1, CHUNK, 2 * CHUNK - 2, 2 * CHUNK - 1, 2 * CHUNK]) {
  text("a".repeat(before) + "😀" + "b");
  text("中".repeat(before) + "😀");
}
text("😀".repeat(CHUNK));
text("x" + "😀".repeat(CHUNK));
text("a".repeat(CHUNK - 1) + "\ud83d");
text("a".repeat(CHUNK - 1) + "\ud83d" + "b".repeat(9));
text("a".repeat(CHUNK) + "\ude00");
