// there are no modules: an import is refused, where it stands or by a promise that rejects
// source: "text(1); import('x').catch((e) => text(e instanceof Error)); text(2)"
// source: "try { await import('fs') } catch (e) { text(e instanceof Error); text(e.name) }"
// source: "await import('fs')"
// source: "import fs from 'fs'; text(1)"
// source: "const { x } = await import('data:text/javascript,export const x = 1')"
// source: "await import('a', { with: { type: 'json' } })"
// source: "import defer * as ns from 'x'"
// source: "import source x from 'x'"
