// What a model might send: find files, read them all at once, hand over a short table instead of their contents.
const { matches } = await tools.search_files({ pattern: "await ", glob: "*.py", path: "codemode", limit: 2000 });
const { entries } = await tools.list_dir({ path: "runtime_js" });

const paths = new Set(matches.map((match) => match.path));
for (const { path, type } of entries) {
  if (type === "file" && path.endsWith(".js")) paths.add(path);
}

const files = await Promise.all([...paths].map((path) => tools.read_file({ path })));

const rows = files.map(({ path, content, total_lines }) => ({ path, lines: total_lines, characters: content.length }));
rows.sort((a, b) => b.lines - a.lines);

const width = Math.max(...rows.map((row) => row.path.length));
text(`${"file".padEnd(width)}  lines  characters`);
for (const { path, lines, characters } of rows.slice(0, 8)) {
  text(`${path.padEnd(width)}  ${String(lines).padStart(5)}  ${String(characters).padStart(10)}`);
}
const total = rows.reduce((sum, row) => sum + row.lines, 0);
text(`${rows.length} files read in parallel, ${total} lines in all`);
