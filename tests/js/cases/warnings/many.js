// warnings are bounded in number
for (let i = 0; i < 300; i++) tools.echo(i);
for (let i = 0; i < 3; i++) tools.echo(i).catch(() => {});
