"""JSON Schemas as TypeScript types, for a model to read. Pure functions of a schema; nothing is fetched.

A value that is valid under a schema is assignable to its type; where a type cannot say it all, it says less: a comment,
or `unknown`. Properties beside those that a schema names appear only where the schema speaks of them.
"""
