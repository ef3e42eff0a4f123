"""The HTTP side of codemode, and nothing else: it converts requests and answers, and decides nothing."""
