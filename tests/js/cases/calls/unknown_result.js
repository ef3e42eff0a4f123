// results of calls that were never made, or had theirs, change nothing
// deliver 7 ok "never made"
// deliver 1 ok "first"
// deliver 1 ok "again"
// deliver 1 error "again"
// deliver 0 ok "zero"
// deliver 2 ok "second"
text(await tools.echo({}));
text(await tools.echo({}));
