"""Plays case files against any server that keeps the contract, over HTTP only. No part of codemode is imported.

Judging an answer    differences, answers, form, expectations (what a case says), rules (what always holds), typescript
The world of a case  stub (tools and hooks that are called back), target (the server under test)
Playing a case       conversation, and on it the steps: cell_steps, http_steps, log_steps, description, server_steps; player
The whole run        results, run, cli
"""
