// A text whose types are being blanked: its tokens, and what is put in the place of its characters. A blank replaces each
// UTF-16 unit but those that end a line, so every line and column stays where it was.
(function (types) {
  "use strict";

  const IN_A_LINE = /[^\n\r\u2028\u2029]/g; // without the flag u: a unit at a time
  const LINE_END = /[\n\r\u2028\u2029]/;

  types.Edits = class {
    #source;
    #starts = [];
    #ends = [];
    #blanks = []; // [start, end, what its first and last character become]

    // `tokens` are those of the parser, with comments among them.
    constructor(source, tokens) {
      this.#source = source;
      for (const { type, start, end } of tokens) {
        if (type === "CommentBlock" || type === "CommentLine") continue;
        this.#starts.push(start);
        this.#ends.push(end);
      }
    }

    // The number of the first token that starts at or behind a position.
    tokenAt(position) {
      let low = 0;
      let high = this.#starts.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.#starts[middle] < position) low = middle + 1;
        else high = middle;
      }
      return low;
    }

    start(token) {
      return this.#starts[token];
    }

    // The text of a token; "" before the first one and for the end of the source.
    text(token) {
      return token < 0 || token >= this.#starts.length
        ? ""
        : this.#source.slice(this.#starts[token], this.#ends[token]);
    }

    // The text of the token before a position, and of the one at or behind it.
    textBefore(position) {
      return this.text(this.tokenAt(position) - 1);
    }

    textBehind(position) {
      return this.text(this.tokenAt(position));
    }

    hasLineEnd(start, end) {
      return LINE_END.test(this.#source.slice(start, end));
    }

    blank(start, end, first = " ", last = " ") {
      this.#blanks.push([start, end, first, last]);
    }

    blankToken(token, instead = " ") {
      this.blank(this.#starts[token], this.#ends[token], instead);
    }

    // Blank what begins a statement or a member of a class. What stands before it may have no semicolon and would go on
    // with what stands behind it, so there is one in its place.
    blankWhole(start, end) {
      this.blank(start, end, this.isOpenBefore(start) ? ";" : " ");
    }

    isOpenBefore(position) {
      return !["", ";", "{"].includes(this.textBefore(position));
    }

    get isEmpty() {
      return this.#blanks.length === 0;
    }

    // The text with everything blanked.
    result() {
      const parts = [];
      let at = 0;
      for (const [start, end, first, last] of this.#blanks.sort((a, b) => a[0] - b[0])) {
        if (start < at) continue; // inside of one that was blanked already
        const blanked = this.#source.slice(start, end).replace(IN_A_LINE, " ");
        parts.push(this.#source.slice(at, start));
        parts.push(end - start === 1 ? first : (first === " " ? blanked[0] : first) + blanked.slice(1, -1));
        if (end - start > 1) parts.push(last === " " ? blanked.at(-1) : last);
        at = end;
      }
      parts.push(this.#source.slice(at));
      return parts.join("");
    }
  };
});
